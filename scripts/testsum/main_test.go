package main

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCounts(t *testing.T) {
	t.Parallel()
	const stream = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"run","Package":"a","Test":"TestX/one"}
{"Action":"output","Package":"a","Test":"TestX/one","Output":"why one failed\n"}
{"Action":"fail","Package":"a","Test":"TestX/one","Elapsed":0.1}
{"Action":"pass","Package":"a","Test":"TestX/two","Elapsed":0.1}
{"Action":"fail","Package":"a","Test":"TestX","Elapsed":0.1}
{"Action":"output","Package":"a","Test":"TestY","Output":"why it was skipped\n"}
{"Action":"skip","Package":"a","Test":"TestY","Elapsed":0}
{"Action":"pass","Package":"a","Test":"TestZ","Elapsed":12}
{"Action":"fail","Package":"a","Elapsed":1.5}
not JSON
{"Action":"skip","Package":"empty","Elapsed":0}
{"ImportPath":"b","Action":"build-output","Output":"b.go:1: wrong\n"}
{"ImportPath":"b","Action":"build-fail"}
{"Action":"fail","Package":"b","Elapsed":0,"FailedBuild":"b"}
{"Action":"run","Package":"c","Test":"TestCut"}
{"Action":"output","Package":"c","Test":"TestCut","Output":"panic: oh\n"}
{"Action":"fail","Package":"c","Elapsed":0.2}
`
	var out bytes.Buffer
	s := summary{out: &out, tests: make(map[string]*test), parents: make(map[string]bool)}
	if err := s.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	const want = `FAIL  a TestX/one
why one failed
FAIL  a TestX
skip  a TestY
why it was skipped
pass  a TestZ 12.0s
fail  a 1.5s
not JSON
none  empty
b.go:1: wrong
fail  b 0.0s
cut   c TestCut
panic: oh
fail  c 0.2s
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if p, f, k := s.counts(); p != 2 || f != 3 || k != 1 {
		t.Errorf("got %d passed, %d failed, %d skipped; want 2, 3 (one, the build of b, the panic of c), 1", p, f, k)
	}
	s.noskip = true
	if p, f, k := s.counts(); p != 2 || f != 4 || k != 0 {
		t.Errorf("skips as failures: got %d, %d, %d; want 2, 4, 0", p, f, k)
	}
}

// A parent that fails after its subtests passed is a failure of its own.
func TestParentAlone(t *testing.T) {
	t.Parallel()
	s := summary{out: new(bytes.Buffer), tests: make(map[string]*test), parents: make(map[string]bool)}
	err := s.read(strings.NewReader(`{"Action":"pass","Package":"a","Test":"TestX/one"}
{"Action":"fail","Package":"a","Test":"TestX"}
{"Action":"fail","Package":"a"}
`))
	if p, f, k := s.counts(); err != nil || p != 1 || f != 1 || k != 0 {
		t.Errorf("got %d, %d, %d, %v; want 1, 1, 0", p, f, k, err)
	}
}
