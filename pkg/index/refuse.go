package index

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// refuse fails when the database in dir is of a format that this release does not know, or its list of tables is torn, or one of them, before
// it is opened for writing: then Badger leaves all of its files alone. One that was not closed cannot be looked at before; load looks again, and
// changes no row.
func refuse(dir string, o Options, killed bool) (err error) {
	if listed, err := hasManifest(dir); err != nil || !listed {
		return err
	}
	if err := wholeManifest(dir, o, killed); err != nil || killed { // one that was killed cannot be read without writing
		return err
	}
	db, err := badger.OpenManaged(badgerOptions(dir, o).WithReadOnly(true))
	if err != nil {
		return nil // opening it says why
	}
	defer db.Close()
	defer recovered(&err)
	txn := db.NewTransactionAt(latest, false)
	defer txn.Discard()
	format, err := readFormat(txn)
	if err == nil && format != 0 && format != FormatVersion {
		err = unknownFormat(format)
	}
	return err
}

// hasManifest tells whether there is a database in dir. Without the list of its tables the rest of one is ErrDamaged: Badger would begin a new
// one, and delete what is there. It writes the list before anything else.
func hasManifest(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	for _, pattern := range []string{"*.sst", "*.vlog", "*.mem"} {
		left, err := filesIn(dir, pattern)
		switch {
		case err != nil:
			return false, err
		case len(left) > 0:
			return false, fmt.Errorf("%w (%s is missing, and %s is there)", ErrDamaged, badger.ManifestFilename, filepath.Base(left[0]))
		}
	}
	return false, nil
}

// wholeManifest fails when the list of tables of a database that was closed ends within an entry. Badger takes that for a write that was
// torn, as it may be after a kill, and deletes the tables that the rest would have listed, even when it only reads. It fails as well when a
// table that is listed is damaged.
func wholeManifest(dir string, o Options, killed bool) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	list, end, err := badger.ReplayManifestFile(f, 0, badgerOptions(dir, o))
	if err != nil {
		return fmt.Errorf("%w: %s", err, whenItStays)
	}
	if end != info.Size() && !killed {
		return fmt.Errorf("%w (%s is torn at byte %d of %d)", ErrDamaged, badger.ManifestFilename, end, info.Size())
	}
	return wholeTables(dir, list)
}
