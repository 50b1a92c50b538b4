package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockName is the file whose flock means "the index is in use". Badger locks its folder too, but its error cannot be told apart.
const lockName = "zsidecar.lock"

// lockDir takes the lock of an index; its file is opened with the given flags. Closing the file gives it back, and so does the end of
// the process, however it ends.
func lockDir(dir string, flags int) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the index: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is locked: stop the other zsidecar, or give this one another data directory", ErrLocked, path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// notWritable says whose folder it is that this process may not write to, and what to do. Other errors stay as they are.
func notWritable(dir string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: mount the file system for writing, or name another data directory", err)
	case !errors.Is(err, fs.ErrPermission):
		return err
	}
	info, statErr := os.Stat(dir)
	for statErr != nil && dir != filepath.Dir(dir) { // a folder above is the one that refuses
		dir = filepath.Dir(dir)
		info, statErr = os.Stat(dir)
	}
	if statErr != nil {
		return err
	}
	owner := "another"
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = fmt.Sprintf("user %d", st.Uid)
	}
	return fmt.Errorf("%w: %s belongs to %s with mode %#o, and this process is user %d: give it the folder (chown), or name another data directory",
		err, dir, owner, info.Mode().Perm(), os.Getuid())
}
