package zebrarpc

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// A wallet that waits for one block does not wait behind those who read many.
func TestOneBlockGoesFirst(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(100, chaintest.Small)
	synctest.Test(t, func(t *testing.T) {
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			if q.height() != 5 {
				q.sleep(9 * time.Second)
			}
			return blocks.answer(q)
		})
		go drain(c, t.Context(), 10, 99, Range, nil)
		synctest.Wait() // it has taken all that bulk may have
		begin := time.Now()
		got := drain(c, t.Context(), 5, 5, Range, func(b chain.Fetched) {
			if b.NextReady || b.TxCount == 0 || len(b.Shielded)+len(b.Transparent) == 0 {
				t.Errorf("%+v", b)
			}
		})
		if took := time.Since(begin); got.err != nil || !slices.Equal(got.ids, blocks.order(5, 5)) || took != 0 {
			t.Errorf("%v, %v after %v", got.ids, got.err, took)
		}
		got = drain(c, t.Context(), 6, 6, Build, nil) // a builder waits, however little it wants
		if took := time.Since(begin); got.err != nil || took < 9*time.Second {
			t.Errorf("the builder's block: %v, %v after %v", got.ids, got.err, took)
		}
	})
}

// One block is asked for twice at most, and what is wrong with it is said as for many.
func TestOneBlockFails(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(10, chaintest.Small)
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		c := fakeClient(t, Options{}, func(q question) (*http.Response, error) {
			switch h := q.height(); h {
			case 3:
				tries++
				return page(503, ""), nil
			case 4:
				return q.result(`"0102"`)
			case 6:
				<-q.ctx.Done()
				return nil, q.ctx.Err()
			}
			return blocks.answer(q)
		})
		one := func(h chain.Height) error { return drain(c, t.Context(), h, h, Range, nil).err }
		if err := one(3); !errors.Is(err, chain.ErrUnavailable) || tries != callTries {
			t.Errorf("%v after %d tries", err, tries)
		}
		var e *Error
		if err := one(4); !errors.As(err, &e) || e.Class != Fatal || e.Hint != hintBlock || e.Subject != "height 4" {
			t.Errorf("no block: %v", err)
		}
		if err := one(10); !errors.Is(err, chain.ErrAboveTip) {
			t.Errorf("above the tip: %v", err)
		}
		begin := time.Now()
		if err := one(6); !errors.Is(err, chain.ErrUnavailable) || time.Since(begin) != callLimit {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
