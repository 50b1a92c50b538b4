package index

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// badgerRoom is what Badger may write besides commits, in bytes: it flushes its memory table when it closes, and replays logs when it
	// opens.
	badgerRoom = 2 * memTableSize

	// badgerFiles is how many files Badger may open in and after a commit: a memory table, a value log, the tables of a flush and of
	// compactions, a new manifest.
	badgerFiles = 16
)

// checkSpace keeps the disk from filling up by commits.
func (s *Store) checkSpace(size int64) error {
	needed := size + s.o.MinFree
	if err := checkFree(s.dir, needed, s.o.freeHook); err != nil {
		return err
	}
	if err := s.reserved.check(s.dir, size, needed); err != nil {
		return err
	}
	return checkFiles(s.dir, badgerFiles)
}

// checkRoom refuses what would fill the disk: Badger writes through mapped sparse files, where a full disk is a SIGBUS and no error. And it
// refuses what may find no file descriptor: when Badger cannot open its next memory table, the commit after that ends the process.
// A nil free asks the file system.
func checkRoom(dir string, needed int64, free func() int64) error {
	if err := checkFree(dir, needed, free); err != nil {
		return err
	}
	if err := reserve(dir, needed); err != nil {
		return err
	}
	return checkFiles(dir, badgerFiles)
}

// checkFree compares with the bytes that the file system says are free.
func checkFree(dir string, needed int64, free func() int64) error {
	if free == nil {
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return fmt.Errorf("look for free space in %s: %w", dir, err)
		}
		free = func() int64 { return int64(fs.Bavail) * int64(fs.Bsize) }
	}
	if n := free(); n < needed {
		return &DiskFullError{Dir: dir, Free: n, Needed: needed}
	}
	return nil
}

// checkOpening is checkRoom for what opens the database: every table and every value log has a descriptor of its own.
func checkOpening(dir string, free func() int64) error {
	if err := checkRoom(dir, badgerRoom, free); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the index: %w", err)
	}
	return checkFiles(dir, badgerFiles+len(entries))
}

// checkFiles finds out whether so many files can be opened, by doing it: the process has a limit, and so has the machine.
func checkFiles(dir string, needed int) error {
	opened := make([]int, 0, needed)
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd) // nothing was written
		}
	}()
	for range needed {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			return fmt.Errorf("%w: the index may need %d more than are left: raise the limit (ulimit -n, LimitNOFILE=), or close some connections; a build goes on by itself then: %w",
				ErrTooManyFiles, needed-len(opened), err)
		case err != nil:
			return fmt.Errorf("look for file descriptors: open %s: %w", dir, err)
		}
		opened = append(opened, fd)
	}
	return nil
}
