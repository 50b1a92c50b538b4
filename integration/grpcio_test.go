package integration

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestSecondClientStack reads ranges with Python's grpcio, whose HTTP/2 and protobuf share no code with grpc-go.
func TestSecondClientStack(t *testing.T) {
	t.Parallel()
	python := pythonPath(t)
	stubs := t.TempDir()
	generate := exec.Command(python, "-m", "grpc_tools.protoc", "-I", "../proto", "--python_out", stubs,
		"compact_formats.proto", "service.proto")
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("generate Python code from proto/: %v\n%s", err, out)
	}
	n := fixtureNode(t, "")
	tip, _ := n.tip()
	full := expectChain(t, n, 0, tip)
	for _, s := range []setup{passthrough, defaultSegments} {
		t.Run(s.name, func(t *testing.T) {
			c := newSidecar(t, n.url(), n.cookie(), s)
			c.start()
			awaitAnswer(t, c.wallet())
			if !s.noIndex {
				c.awaitIndex(tip, time.Minute)
			}
			testSecondStack(t, python, stubs, c.grpcAddr, full)
		})
	}
}

// pythonAnswer is what grpcio_client.py prints.
type pythonAnswer struct {
	Code               string
	Count, First, Last int
	SHA256             string
}

func testSecondStack(t *testing.T, python, stubs, addr string, full []*walletrpc.CompactBlock) {
	tip := len(full) - 1
	all := []walletrpc.PoolType{
		walletrpc.PoolType_TRANSPARENT, walletrpc.PoolType_SAPLING, walletrpc.PoolType_ORCHARD, walletrpc.PoolType_IRONWOOD,
	}
	for _, tc := range []struct {
		query    query
		from, to int
		code     string
	}{
		{query{method: getBlockRange}, 0, tip, "OK"},
		{query{method: getBlockRange}, tip, 0, "OK"},
		{query{getBlockRange, all}, 0, tip, "OK"},
		{query{method: getBlockRangeNullifiers}, 0, tip, "OK"},
		{query{method: getBlockRange}, tip - 9, tip + 1, "OUT_OF_RANGE"},
		{query{method: getBlockRange}, tip + 1, 0, "OUT_OF_RANGE"},
		{query{getBlockRange, []walletrpc.PoolType{99}}, 0, tip, "INVALID_ARGUMENT"},
	} {
		args := []string{"grpcio_client.py", stubs, addr, tc.query.method, strconv.Itoa(tc.from), strconv.Itoa(tc.to)}
		for _, pool := range tc.query.pools {
			args = append(args, strconv.Itoa(int(pool)))
		}
		out, err := exec.Command(python, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		var got pythonAnswer
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v printed %q: %v", args, out, err)
		}
		want := expectPython(tc.query.encoded(t, full), tc.from, tc.to)
		want.Code = tc.code
		if tc.code == "INVALID_ARGUMENT" {
			want = pythonAnswer{Code: tc.code, First: -1, Last: -1, SHA256: want.SHA256}
			want.SHA256 = hex.EncodeToString(sha256.New().Sum(nil))
		}
		if got != want {
			t.Errorf("%v %d to %d:\n got %+v\nwant %+v", tc.query, tc.from, tc.to, got, want)
		}
	}
}

// expectPython is what the client sees of the blocks from..to that exist; nothing when the first one does not.
func expectPython(want [][]byte, from, to int) pythonAnswer {
	digest := sha256.New()
	answer := pythonAnswer{First: -1, Last: -1}
	step := 1
	if from > to {
		step = -1
	}
	for height := from; height >= 0 && height < len(want) && (to-height)*step >= 0; height += step {
		digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(want[height]))))
		digest.Write(want[height])
		if answer.Count == 0 {
			answer.First = height
		}
		answer.Count++
		answer.Last = height
	}
	answer.SHA256 = hex.EncodeToString(digest.Sum(nil))
	return answer
}
