package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"golang.org/x/sys/unix"
)

// wholeTables fails when a table of the list is damaged where Badger reads it at once. It would do so in a goroutine of its own, where
// nobody can recover the panic with which it answers.
func wholeTables(dir string, list badger.Manifest) error {
	for id := range list.Tables {
		path := table.NewFilename(id, dir)
		if err := wholeTable(path, id); err != nil && !errors.Is(err, fs.ErrNotExist) { // Badger names one that is missing
			return fmt.Errorf("open table %s: %w", path, err)
		}
	}
	return nil
}

// wholeTable opens a table as Badger does, and leaves the file as it is.
func wholeTable(path string, id uint64) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w (it is empty)", ErrDamaged)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map it: %w", err)
	}
	defer unix.Munmap(data)
	defer recovered(&err)
	if _, err := table.OpenInMemoryTable(data, id, &table.Options{}); err != nil {
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return nil
}

// logHeaderLen is how long a value log without entries is.
const logHeaderLen = 20

// spareNewestLog puts a value log without entries behind the newest one of a database that was closed. When Badger opens one for writing it
// cuts the newest log off at the first entry that it cannot read, and all segments behind a damaged one would be lost with it. An empty log
// that is not the newest any more it deletes.
func spareNewestLog(dir string) error {
	logs, err := filesIn(dir, "*.vlog")
	if err != nil || len(logs) == 0 {
		return err
	}
	newest := logs[len(logs)-1]
	info, err := os.Stat(newest)
	if err != nil || info.Size() <= logHeaderLen {
		return err
	}
	var id uint32
	if _, err := fmt.Sscanf(filepath.Base(newest), "%06d.vlog", &id); err != nil {
		return nil // Badger says what it thinks of it
	}
	spare := filepath.Join(dir, fmt.Sprintf("%06d.vlog", id+1))
	if err := os.WriteFile(spare, make([]byte, logHeaderLen), 0o644); err != nil {
		return fmt.Errorf("spare the newest value log: %w", errors.Join(err, os.Remove(spare)))
	}
	return nil
}

// filesIn returns the paths of the files in dir whose names match a pattern, sorted. What the name of dir looks like does not matter, as it
// would to filepath.Glob.
func filesIn(dir, pattern string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names, err
}
