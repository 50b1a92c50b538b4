package integration

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// row is one line of the table in docs/protocol.md: a request, and the status with which it has to end in both positions.
type row struct {
	method string
	name   string // the case
	want   outcome
	text   string // what the status has to say, where somebody relies on it
	beside place

	// run sends the request. It returns the error of the call, or one that is no status when the answer is wrong.
	run func(ctx context.Context, e *env) error
}

// outcome is the status code of a row, without an index and beside a complete one.
type outcome struct{ noIndex, indexed codes.Code }

// always is the same code in both positions.
func always(c codes.Code) outcome { return outcome{c, c} }

func (o outcome) in(s setup) codes.Code {
	if s.noIndex {
		return o.noIndex
	}
	return o.indexed
}

// place says which node a row needs: what is simulated can be made to fail, what is real cannot be misunderstood.
type place uint8

const (
	anywhere place = iota // run beside both
	simulated
	onZebrad
)

func (p place) String() string { return [...]string{"both", "simulated", "zebrad"}[p] }

// rowLimit is the time for one row.
const rowLimit = 20 * time.Second

// positions are the two ways in which every row has to hold.
func positions() []setup { return []setup{passthrough, {name: "index complete"}} }

// conformance is every row but those of a failing node, in the order of the document.
func conformance() []row {
	var rows []row
	for _, group := range [][]row{
		requestRows(), tipRows(), blockRows(), rangeRows(), poolRows(), transactionRows(), sendRows(), addressRows(), addressRangeRows(),
		balanceRows(), utxoRows(), mempoolRows(), mempoolStreamRows(), treeRows(), subtreeRows(), infoRows(), pingRows(), subscriptionRows(),
	} {
		rows = append(rows, group...)
	}
	return rows
}

// TestConformance runs the table beside a simulated node.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, s := range positions() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			newSimulatedEnv(t, s).check(t, conformance())
		})
	}
}

// TestConformanceZebrad runs the table beside a real node, and on demand against the wallet server that the node itself has.
func TestConformanceZebrad(t *testing.T) {
	t.Parallel()
	for _, s := range positions() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			newZebradEnv(t, s).check(t, conformance())
		})
	}
	if os.Getenv(compareVariable) == "1" {
		t.Run("Zebra's own server", listDifferences)
	}
}

// check runs the rows that the node is right for, one after the other.
func (e *env) check(t *testing.T, rows []row) {
	for _, r := range rows {
		if r.beside != anywhere && r.beside != e.place {
			continue
		}
		t.Run(r.method+"/"+r.name, func(t *testing.T) {
			if err := e.holdWithin(t.Context(), rowLimit, r); err != nil {
				t.Error(err)
			}
		})
	}
}

// deviation is an answer that is not what a row says.
type deviation struct {
	kind string // in few words, the same each time
	error
}

// hold runs a row and says how it differs from what is written.
func (e *env) hold(ctx context.Context, r row) error {
	err := r.run(ctx, e)
	st, ok := status.FromError(err)
	want := r.want.in(e.position)
	name := codeName(st.Code())
	switch {
	case !ok:
		return deviation{"another answer", fmt.Errorf("the answer is wrong: %w", err)}
	case st.Code() != want:
		return deviation{name, fmt.Errorf("%v, want %v: %s", st.Code(), want, st.Message())}
	case !strings.Contains(st.Message(), r.text):
		return deviation{name + ", other text", fmt.Errorf("%v says %q, want %q in it", st.Code(), st.Message(), r.text)}
	case want == codes.OutOfRange && !strings.Contains(st.Message(), strconv.FormatUint(e.tip, 10)):
		return deviation{name + ", tip not named", fmt.Errorf("%v says %q, which does not name the tip %d", st.Code(), st.Message(), e.tip)}
	}
	return nil
}

// holdWithin is hold with a client's deadline, after which the answer comes within a second.
func (e *env) holdWithin(ctx context.Context, limit time.Duration, r row) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	err := e.hold(ctx, r)
	if took := time.Since(begin); took > limit+time.Second {
		return fmt.Errorf("answered after %v (%v)", took, err)
	}
	return err
}
