package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// TestWrongTip plants servers that name a tip which they do not have, from the beginning or later on: that is no chain that moves.
func TestWrongTip(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	for name, after := range map[string]int64{"always": 0, "later": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			wrong := startWrong(t, right, func(method string, _ int, m []byte) ([][]byte, error) {
				if method != "GetLatestBlock" || asked.Add(1) <= after {
					return [][]byte{m}, nil
				}
				tip := &walletrpc.BlockID{}
				if err := proto.Unmarshal(m, tip); err != nil {
					return nil, err
				}
				tip.Hash[0] ^= 1
				changed, err := proto.Marshal(tip)
				return [][]byte{changed}, err
			})
			o := quick(TargetOptions{Name: "wrong", Address: wrong}, TargetOptions{Name: "right", Address: right})
			o.Scenarios = []string{"latency"}
			result := mustRun(t, o)
			if len(result.Faults) != 1 || result.Faults[0].Target != "wrong" || result.Faults[0].Case != "GetLatestBlock" ||
				!strings.Contains(result.Faults[0].Text, "GetLatestBlock names 260 ") {
				t.Errorf("faults: %+v, notes: %+v", result.Faults, result.Notes)
			}
		})
	}
}

// hangingAsker answers two calls and lets the third hang.
type hangingAsker struct{ calls int }

func (a *hangingAsker) ask(ctx context.Context, _ *question) (Answer, error) {
	if a.calls++; a.calls > 2 {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	return Answer{Messages: 1, Bytes: 10, First: time.Nanosecond}, nil
}

func (*hangingAsker) close() {}

// TestHangs: a call that hangs counts as far as it was waited for, so that it is no shorter than the others.
func TestHangs(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	for q, times := range map[*question]int{oneBlock(1): 3, blockRange(1, 1): 2} { // of a range that is cut a part may have come
		got, err := new(run).load(t.Context(), new(target), load{questions: []*question{q}, time: time.Minute, limit: limit}, []asker{&hangingAsker{}})
		if err != nil || got.calls != 2 || len(got.times) != times || len(got.firsts) != 3 {
			t.Fatalf("%v: %v, %+v", q, err, got)
		}
		// The first two took next to nothing of the time that was waited.
		if longest := slices.Max(got.firsts); longest < limit/2 || times == 3 && slices.Max(got.times) != longest {
			t.Errorf("%v: first messages after %v, calls %v", q, got.firsts, got.times)
		}
	}
}

// TestWrongCrowd has servers that answer a crowd wrongly, whose questions nobody else asks: each time in another way, or always in the same.
func TestWrongCrowd(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	for name, want := range map[string]string{
		"each time":  "the same question has to have the same answer",
		"every time": "message 100 differs from that at right: time is",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Uint32
			wrong := startWrong(t, right, func(_ string, n int, m []byte) ([][]byte, error) {
				if n != probeLength { // the whole chain alone has so many blocks
					return [][]byte{m}, nil
				}
				return editBlock(t, m, func(b *walletrpc.CompactBlock) {
					b.Time++
					if name == "each time" {
						b.Time += asked.Add(1)
					}
				}), nil
			})
			o := quick(TargetOptions{Name: "right", Address: right}, TargetOptions{Name: "wrong", Address: wrong})
			o.Scenarios, o.Rounds = []string{"stalled"}, 1
			result := mustRun(t, o)
			if !slices.ContainsFunc(result.Faults, func(f Fault) bool { return f.Case == "4 equal readers" && strings.Contains(f.Text, want) }) ||
				slices.ContainsFunc(result.Faults, func(f Fault) bool { return f.Target != "wrong" }) {
				t.Errorf("faults: %+v", result.Faults)
			}
		})
	}
}

// TestWithdrawn has servers that refuse as if a method were missing, which they have answered before: in part, for other blocks, or earlier.
func TestWithdrawn(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	missing := status.Error(codes.Unimplemented, "no such method")
	for name, refuses := range map[string]func(method string, n int, asked int64) bool{
		"in the middle": func(method string, n int, _ int64) bool { return method == "GetBlockRange" && n == 50 },
		"other blocks":  func(method string, _ int, asked int64) bool { return method == "GetBlock" && asked > 100 },
		"later":         func(method string, _ int, asked int64) bool { return method == "GetBlock" && asked > latencyBlocks+10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			wrong := startWrong(t, right, func(method string, n int, m []byte) ([][]byte, error) {
				if refuses(method, n, asked.Load()) {
					return nil, missing
				}
				if method == "GetBlock" {
					asked.Add(1)
				}
				return [][]byte{m}, nil
			})
			o := quick(TargetOptions{Name: "wrong", Address: wrong})
			o.Rounds, o.Scenarios = 3, []string{"latency", "ranges"}
			result := mustRun(t, o)
			if !slices.ContainsFunc(result.Faults, func(f Fault) bool { return strings.Contains(f.Text, "refused as if there were no such method") }) {
				t.Errorf("faults: %+v", result.Faults)
			}
			for _, m := range result.Measurements {
				if m.Unsupported != "" {
					t.Errorf("%s, %s: not offered", m.Scenario, m.Case)
				}
			}
		})
	}
}

// TestStrangeChains has servers whose word about their chain leaves nothing, or little, to ask for: it is said who they are.
func TestStrangeChains(t *testing.T) {
	t.Parallel()
	right := startServer(t, nil)
	for _, tt := range []struct {
		height, sapling uint64
		wrong, note     string // the error of the run, or a note
	}{
		{height: 1 << 40, sapling: 1, wrong: "target wrong at 127.0.0.1:"},
		{height: 0, sapling: 1, wrong: "right says that it has 1 to 260, wrong says that it has 1 to 0"},
		{height: 260, sapling: 1 << 63, wrong: "wrong says that it has 9223372036854775808 to 260"},
		{height: 260, sapling: 255, note: "it says that Sapling begins at block 255, and right at 1"},
	} {
		t.Run(fmt.Sprintf("%d from %d", tt.height, tt.sapling), func(t *testing.T) {
			t.Parallel()
			wrong := startWrong(t, right, func(method string, _ int, m []byte) ([][]byte, error) {
				var changed proto.Message
				switch method {
				case "GetLatestBlock":
					changed = &walletrpc.BlockID{Height: tt.height, Hash: make([]byte, 32)}
				case "GetLightdInfo":
					changed = &walletrpc.LightdInfo{ChainName: "test", BlockHeight: tt.height, SaplingActivationHeight: tt.sapling}
				default:
					return [][]byte{m}, nil
				}
				m, err := proto.Marshal(changed)
				return [][]byte{m}, err
			})
			o := quick(TargetOptions{Name: "right", Address: right}, TargetOptions{Name: "wrong", Address: wrong})
			o.Scenarios, o.Rounds = []string{"ranges"}, 1
			result, err := Run(t.Context(), o)
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("%v, want %s", err, tt.wrong)
				}
				return
			}
			if err != nil || !slices.ContainsFunc(result.Notes, func(n Fault) bool { return n.Target == "wrong" && strings.Contains(n.Text, tt.note) }) {
				t.Errorf("%v, notes: %+v", err, result.Notes)
			}
		})
	}
}
