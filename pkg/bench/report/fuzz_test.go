package report

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzReadJSON draws and compares whatever is accepted, and reads it again.
func FuzzReadJSON(f *testing.F) {
	var b bytes.Buffer
	if err := WriteJSON(&b, faulty()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version": 1, "targets": [{"name": "a"}], "curves": [{"target": "a", "seconds": [0, 1e-320], "values": [1e18, 0]}]}`))
	f.Add([]byte(`{"version": 1, "targets": [{"name": "a"}], "measurements": [{"scenario": "s", "case": "c", "clients": 1, "target": "a",
		"rounds": [{"calls/s": 1e-320}]}, {"scenario": "s", "case": "c", "clients": 2, "target": "a", "rounds": [{"calls/s": 0}, null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<20 {
			t.Skip()
		}
		r, err := ReadJSON(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := errors.Join(WriteJSON(&again, r), WriteCSV(io.Discard, r), WriteMarkdown(io.Discard, r), WriteHTML(io.Discard, r)); err != nil {
			t.Fatal(err)
		}
		old, err := ReadJSON(&again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		reference := ""
		if len(r.Targets) > 0 {
			reference = r.Targets[0].Name
		}
		c, err := Compare(old, r, reference)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range c.Rows {
			if row.Verdict == Better || row.Verdict == Worse {
				t.Errorf("a result against itself: %+v", row)
			}
		}
		if err := c.WriteMarkdown(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}
