package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// canStart tells why servers cannot be started here; nil: they can.
func canStart() error { return nil }

// ownGroup makes a process the leader of a group, and lets the kernel end it when the benchmark dies without doing so.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup kills the process group that a process leads.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) } // an error says that nobody is left

// allocated returns how many bytes the files below a directory occupy on the disk; a sparse file counts with what it holds.
func allocated(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				stat, ok := info.Sys().(*syscall.Stat_t)
				if !ok {
					return fmt.Errorf("%s: its size on the disk is not known", path)
				}
				total += stat.Blocks * 512
				return nil
			}
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil // the server has removed it meanwhile
		}
		return err
	})
	return total, err
}
