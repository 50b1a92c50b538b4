// Command testsum reads what `go test -json` prints, shows packages and failures in readable lines, and ends with 1 if anything failed.
//
//	go test -json ./... | testsum [-counts FILE] [-noskip]
//
// With -counts it appends a line "passed failed skipped" to FILE, so that a script can add up several runs. With -noskip a skipped test
// counts as failed.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	counts := flag.String("counts", "", "file to which the line \"passed failed skipped\" is appended")
	noskip := flag.Bool("noskip", false, "count a skipped test as failed")
	flag.Parse()
	s := summary{out: os.Stdout, noskip: *noskip, tests: make(map[string]*test), parents: make(map[string]bool)}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	passed, failed, skipped := s.counts()
	if err := appendCounts(*counts, passed, failed, skipped); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Printf("in this run: %d passed, %d failed, %d skipped.\n", passed, failed, skipped)
	if failed > 0 || passed+skipped == 0 {
		os.Exit(1)
	}
}

func appendCounts(path string, passed, failed, skipped int) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, passed, failed, skipped); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build events
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// test is a test, a package (the name without " Test"), or a build.
type test struct {
	output  []string
	outcome string // pass, fail or skip
}

type summary struct {
	out     io.Writer
	noskip  bool
	tests   map[string]*test // by "package Test"
	parents map[string]bool  // tests that have subtests: only the subtests count
	broken  int              // packages that failed without a failed test: a build, a panic, a time-out
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			fmt.Fprintln(s.out, lines.Text())
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *summary) take(e event) {
	key := strings.TrimSpace(e.Package + e.ImportPath + " " + e.Test)
	t := s.tests[key]
	if t == nil {
		t = new(test)
		s.tests[key] = t
	}
	switch e.Action {
	case "output", "build-output":
		t.output = append(t.output, e.Output)
	case "build-fail":
		fmt.Fprint(s.out, strings.Join(t.output, ""))
		t.output = nil
	case "pass", "fail", "skip":
		t.outcome = e.Action
		if at := strings.LastIndexByte(e.Test, '/'); at >= 0 {
			s.parents[e.Package+" "+e.Test[:at]] = true
		}
		s.show(e, t)
		if e.Test != "" && e.Action == "pass" {
			t.output = nil
		}
	}
}

// show prints a finished package, and a finished test when it did not pass or took its time.
func (s *summary) show(e event, t *test) {
	switch {
	case e.Test == "" && e.Action == "skip":
		fmt.Fprintf(s.out, "none  %s\n", e.Package)
	case e.Test == "":
		if e.Action == "fail" && !s.anyFailed(e.Package) {
			s.broken++
			fmt.Fprint(s.out, strings.Join(t.output, ""))
			s.showUnfinished(e.Package)
		}
		fmt.Fprintf(s.out, "%-5s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
	case e.Action == "fail":
		fmt.Fprintf(s.out, "FAIL  %s %s\n%s", e.Package, e.Test, strings.Join(t.output, ""))
	case e.Action == "skip":
		fmt.Fprintf(s.out, "skip  %s %s\n%s", e.Package, e.Test, strings.Join(t.output, ""))
	case e.Elapsed >= 10:
		fmt.Fprintf(s.out, "pass  %s %s %.1fs\n", e.Package, e.Test, e.Elapsed)
	}
}

// showUnfinished prints the tests that a panic or a time-out cut off.
func (s *summary) showUnfinished(pkg string) {
	for _, key := range slices.Sorted(maps.Keys(s.tests)) {
		if t := s.tests[key]; t.outcome == "" && strings.HasPrefix(key, pkg+" ") {
			fmt.Fprintf(s.out, "cut   %s\n%s", key, strings.Join(t.output, ""))
		}
	}
}

func (s *summary) anyFailed(pkg string) bool {
	for key, t := range s.tests {
		if t.outcome == "fail" && strings.HasPrefix(key, pkg+" ") {
			return true
		}
	}
	return false
}

// counts adds up the tests that have no subtests.
func (s *summary) counts() (passed, failed, skipped int) {
	failed = s.broken
	for key, t := range s.tests {
		if !strings.Contains(key, " ") || s.parents[key] && t.outcome != "fail" {
			continue
		}
		switch {
		case t.outcome == "pass":
			passed++
		case t.outcome == "fail" && !(s.parents[key] && s.childFailed(key)), t.outcome == "skip" && s.noskip:
			failed++
		case t.outcome == "skip":
			skipped++
		}
	}
	return passed, failed, skipped
}

func (s *summary) childFailed(parent string) bool {
	for key, t := range s.tests {
		if t.outcome == "fail" && strings.HasPrefix(key, parent+"/") {
			return true
		}
	}
	return false
}
