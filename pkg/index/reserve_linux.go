package index

import "golang.org/x/sys/unix"

// allocate gives a file without a name in dir so many bytes of the disk, until it is closed again. In a file system in memory it is no more
// than Badger needs in any case: there it is memory that is taken.
func allocate(dir string, size int64) error {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC {
		size = min(size, badgerRoom)
	}
	fd, err := unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range 100 { // a signal, such as those of the scheduler, ends the call
		if err = unix.Fallocate(fd, 0, 0, size); err != unix.EINTR {
			break
		}
	}
	return err
}
