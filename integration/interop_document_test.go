package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// differencesIntro is the text above the tables.
const differencesIntro = `# Differences from Zaino

zainod 0.10.2, zsidecar with a complete index, and Zebra 7.0.0 beside the same regtest chain up to NU6.3 (zainod does not start on one with
NU7), asked the same: every row of the table in [protocol.md](protocol.md) that needs no failing node, whole answers of every gRPC method,
and the questions over JSON-RPC with which zsidecar is compared with Zebra. Where zainod answers otherwise, the last column says who is
right, by Zebra or by the protocol. zsidecar differs from neither in these.

This page is made by ` + "`just interop`" + `; the judgements stand in integration/interop_judgements_test.go and interop_judgements_rpc_test.go.
`

// judgement says who is right in the differences that it fits. Its first four fields are patterns for the whole of a difference's fields;
// an empty one fits all.
type judgement struct {
	method, example, want, zainod string
	right                         string
}

func (j judgement) fits(d difference) bool {
	for _, pair := range [][2]string{{j.method, d.method}, {j.example, d.example}, {j.want, d.want}, {j.zainod, d.zainod}} {
		if pair[0] != "" && !regexp.MustCompile("^(?:"+pair[0]+")$").MatchString(pair[1]) {
			return false
		}
	}
	return true
}

// judged is a line of a table: differences of one kind under one judgement.
type judged struct {
	difference
	methods []string
	right   string
}

// judge finds the first judgement that fits each difference, and puts together those of one kind: over JSON-RPC the example does not make
// another kind. used counts what each judgement was good for.
func judge(list []difference, judgements []judgement, byExample bool, used []int) (lines []judged, without []difference) {
	for _, d := range list {
		i := slices.IndexFunc(judgements, func(j judgement) bool { return j.fits(d) })
		if i < 0 {
			without = append(without, d)
			continue
		}
		used[i]++
		same := slices.IndexFunc(lines, func(l judged) bool {
			return l.want == d.want && l.zainod == d.zainod && l.right == judgements[i].right && (!byExample || l.example == d.example)
		})
		if same < 0 {
			lines = append(lines, judged{difference: d, methods: []string{d.method}, right: judgements[i].right})
			continue
		}
		line := &lines[same]
		line.count += d.count
		if !slices.Contains(line.methods, d.method) {
			line.methods = append(line.methods, d.method)
		}
	}
	return lines, without
}

// requireJudged wants no difference, and otherwise names one of each kind.
func requireJudged(t *testing.T, without []difference, byExample bool) {
	t.Helper()
	kinds, _ := judge(without, []judgement{{}}, byExample, make([]int, 1))
	for _, k := range kinds {
		t.Errorf("%d differences without a judgement: %s, %s: %q, zainod has %q", k.count, methodsCell(k.methods), k.example, k.want, k.zainod)
	}
}

// checkDifferences holds what was seen against the judgements and the document.
func checkDifferences(t *testing.T, requests, calls []difference) {
	t.Helper()
	judgements := judgements()
	used := make([]int, len(judgements))
	grpcLines, without := judge(requests, judgements, true, used)
	rpcLines, more := judge(calls, judgements, false, used)
	requireJudged(t, without, true)
	requireJudged(t, more, false)
	for i, j := range judgements {
		if used[i] == 0 {
			t.Errorf("a judgement without a difference: %+v", j)
		}
	}
	if t.Failed() {
		return // no document without all of it
	}
	text := differencesIntro + "\n## gRPC\n\n| methods | case | zsidecar | zainod | who is right |\n|---|---|---|---|---|\n"
	for _, l := range grpcLines {
		text += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", methodsCell(l.methods), cell(l.example), cell(l.want), cell(l.zainod), l.right)
	}
	text += "\n## JSON-RPC\nThe number is how many of the questions show it; one of them is named. zsidecar answers as Zebra does; Zebra lacks " +
		"getaddressdeltas, getblockdeltas, getchaintips, getspentinfo and gettxoutsetinfo.\n\n" +
		"| methods | questions | for example | zsidecar | zainod | who is right |\n|---|---|---|---|---|---|\n"
	for _, l := range rpcLines {
		text += fmt.Sprintf("| %s | %d | %s | %s | %s | %s |\n",
			methodsCell(l.methods), l.count, quotedCell(l.example), cell(l.want), cell(l.zainod), l.right)
	}
	requireDocument(t, filepath.Join("..", "docs", "differences.md"), text)
}

func methodsCell(methods []string) string {
	if len(methods) == len(methodNames()) {
		return "all"
	}
	return strings.Join(methods, ", ")
}

// requireDocument compares a document, or writes it.
func requireDocument(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != text {
		t.Errorf("%s is not what was seen (%v): run just interop -update, and review the difference", path, err)
	}
}
