package index

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// recoverCrash goes on with a copy of the index as a SIGKILL would leave it: Badger's logs are mapped files, so that all that was written
// is in them.
func (m *model) recoverCrash(a uint32) {
	m.stop()
	m.closeReaders()
	disk, err := m.store.readState()
	if err != nil {
		m.Fatalf("read the state: %v", err)
	}
	m.copies++
	old, dir := m.store.dir, fmt.Sprintf("%s/%d", m.dir, m.copies)
	copyIndex(m, dir, old)
	m.crashed = true // nothing more is written
	_ = m.store.Close()
	if err := os.RemoveAll(old); err != nil {
		m.Fatal(err)
	}
	m.countdown, m.crashed = 0, false
	if a%2 == 0 {
		m.expectClean(dir, false)
	}
	m.node.with(func() { m.node.err = chain.ErrUnavailable }) // so that the builder waits until we have looked
	m.open(dir)
	if top := m.store.state.top; top != disk.top || m.store.state.sealed != disk.sealed {
		m.Fatalf("after a crash the tip is %v, and %v was committed", top.tip(), disk.top.tip())
	}
	m.chain, m.sealed = nil, int(disk.sealed.blocks)
	if disk.top.blocks > 0 {
		m.chain = m.known[disk.top.hash]
	}
	synctest.Wait()
	m.node.set(m.node.best, map[bool]error{true: chain.ErrUnavailable}[m.away])
}

// copyIndex copies what the sparse files of an index hold.
func copyIndex(t testing.TB, to, from string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err == nil {
		err = os.Mkdir(to, 0o755)
	}
	for _, e := range entries {
		if err == nil {
			err = copySparse(to+"/"+e.Name(), from+"/"+e.Name())
		}
	}
	if err != nil {
		t.Fatalf("copy %s: %v", from, err)
	}
}

func copySparse(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err == nil {
		err = out.Truncate(info.Size())
	}
	for pos := int64(0); err == nil && pos < info.Size(); {
		start, err := unix.Seek(int(in.Fd()), pos, unix.SEEK_DATA)
		if err != nil { // a hole up to the end
			break
		}
		end, err := unix.Seek(int(in.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(in, start, end-start)); err != nil {
			return err
		}
		pos = end
	}
	return err
}

// expectClean checks an index that is closed. One that was closed properly, with no view open, has no row too many.
func (m *model) expectClean(dir string, closed bool) {
	r, err := Check(m.Context(), dir, CheckOptions{madeUpSizes: true})
	if err != nil || len(r.Problems) > 0 || closed && (r.UnnamedRows > 0 || r.Recovered || r.TreeStates > modelOptions().TreeStates) {
		var problems []string
		for _, p := range r.Problems[:min(len(r.Problems), 3)] {
			problems = append(problems, p.String())
		}
		m.Fatalf("check: %v, %d rows too many, %d tree states, recovered %t, %d problems: %s", err, r.UnnamedRows, r.TreeStates, r.Recovered, len(r.Problems), strings.Join(problems, "; "))
	}
}
