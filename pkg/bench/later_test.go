package bench

import (
	"strings"
	"sync/atomic"
	"testing"

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
