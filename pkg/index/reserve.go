package index

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostReserved is how many bytes reserve tries at most: commits, the flush of a memory table and what a compaction writes for it.
	// The whole of Options.MinFree would for a moment take from others what they may need.
	mostReserved = 8 * memTableSize

	// reserveAgain is how long it is believed that a reservation would still succeed: others write under the same quota.
	reserveAgain = 10 * time.Second
)

// reserved remembers when room was last reserved, since that costs more than a look at the free bytes. The writer uses it.
type reserved struct {
	at      time.Time
	written int64 // since then
}

// check reserves room before a commit of size bytes, unless that was done lately and half of it has not been written yet.
func (r *reserved) check(dir string, size, needed int64) error {
	if r.written += size; !r.at.IsZero() && time.Since(r.at) < reserveAgain && r.written <= min(needed, mostReserved)/2 {
		return nil
	}
	if err := reserve(dir, needed); err != nil {
		r.at = time.Time{}
		return err
	}
	r.at, r.written = time.Now(), size
	return nil
}

// reserve finds out whether the kernel gives a file in dir so many bytes, by asking for them and giving them back at once. The free bytes
// that a file system names are not those that a quota of a user or group leaves. A file system that cannot reserve anything, or that knows
// no files without a name, is believed.
func reserve(dir string, needed int64) error {
	needed = min(needed, mostReserved)
	if err := allocate(dir, needed); refusesRoom(err) {
		return &DiskFullError{Dir: dir, Needed: needed, Refused: err}
	}
	return nil
}

// refusesRoom tells an error that says that there is no room from those of what a file system cannot do.
func refusesRoom(err error) bool { return errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) }
