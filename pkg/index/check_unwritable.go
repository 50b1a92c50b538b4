package index

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// unwritable tells whether an error says that a directory can only be read.
func unwritable(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission)
}

// checkUnwritable is Check where nothing can be written: on a read-only mount, or in the directory of another user. Badger wants to
// write one file even when it only reads, so it gets a directory of links to the others.
func checkUnwritable(ctx context.Context, dir string, o CheckOptions) (Report, error) {
	lock, err := lockDir(dir, os.O_RDONLY)
	switch {
	case err == nil:
		defer lock.Close()
	case !errors.Is(err, fs.ErrNotExist): // without a lock file nobody has it open
		return Report{}, err
	}
	links, err := linkFiles(dir)
	if err != nil {
		return Report{}, fmt.Errorf("check index %s, which can only be read: %w", dir, err)
	}
	defer os.RemoveAll(links)
	return checkLinked(ctx, dir, links, o)
}

// linkFiles makes a directory of links to the files of a database that was closed.
func linkFiles(dir string) (links string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if killed, err := leftLogs(dir); err != nil || killed {
		return "", errors.Join(err, errors.New("it was not closed, and its log cannot be replayed without writing: check a copy of the directory, or make it writable"))
	}
	files := []string{filepath.Join(dir, badger.ManifestFilename), filepath.Join(dir, badger.KeyRegistryFileName)}
	for _, pattern := range []string{"*.sst", "*.vlog"} {
		found, err := filesIn(dir, pattern)
		if err != nil {
			return "", err
		}
		files = append(files, found...)
	}
	if links, err = os.MkdirTemp("", "zsidecar-check-"); err != nil {
		return "", err
	}
	for _, file := range files {
		if err := os.Symlink(file, filepath.Join(links, filepath.Base(file))); err != nil {
			os.RemoveAll(links)
			return "", err
		}
	}
	return links, nil
}
