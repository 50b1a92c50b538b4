package index

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
