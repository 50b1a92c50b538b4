package zebrarpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// A reply that makes us panic is an error of that one question, which names what was asked, in whatever goroutine it is read; the
// process lives, permits come back, and the stack is in the log.
func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	blocks := newBlockHex(100, chaintest.Small)
	for _, test := range []struct {
		name, subject string
		ask           func(context.Context, *Client) error
	}{
		{"a range", "getblock height 10, hash ", func(ctx context.Context, c *Client) error { return drain(c, ctx, 10, 60, Range, nil).err }},
		{"a build", "getblock height 99, hash ", func(ctx context.Context, c *Client) error { return drain(c, ctx, 99, 20, Build, nil).err }},
		{"a block", "getblock height 7, hash ", func(ctx context.Context, c *Client) error { return drain(c, ctx, 7, 7, Range, nil).err }},
		{"a transaction", "getrawtransaction txid " + anyIDText, func(ctx context.Context, c *Client) error {
			_, err := c.Transaction(ctx, anyID)
			return err
		}},
		{"transactions of an address", "getrawtransaction txid " + anyIDText, func(ctx context.Context, c *Client) error {
			_, _, err := gather(c.AddressTransactions(ctx, "t1", 1, 5))
			return err
		}},
		{"a transaction that was sent", "sendrawtransaction of 1 bytes", func(ctx context.Context, c *Client) error {
			_, err := c.SendTransaction(ctx, []byte{1})
			return err
		}},
		{"any other", "getblockhash height 3 ", func(ctx context.Context, c *Client) error {
			_, err := ask(ctx, c, &query{method: getBlockHash, subject: "height 3", limit: callLimit, tries: 1}, func(*fastjson.Value) (int, error) { panic("no") })
			return err
		}},
		{"a list", "getaddresstxids ", func(ctx context.Context, c *Client) error {
			return askList(ctx, c, &query{method: getAddressTxids, limit: callLimit, tries: 1}, `"result":[`, func(int, []byte) error { panic("no") }, nil)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			c := fakeClient(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(q question) (*http.Response, error) {
				switch q.method {
				case "getblock":
					return blocks.answer(q)
				case "getaddresstxids":
					return q.result(`["` + anyIDText + `"]`)
				case "getrawtransaction":
					return q.result(`{"in_active_chain":true,"hex":"00","height":3,"blockhash":"00"}`)
				case "getbestblockheightandhash":
					return q.failure(-1, "no matter")
				}
				return q.result(`"` + anyIDText + `"`)
			})
			c.encoders.pool.New = func() any { return (*chain.Encoder)(nil) } // whoever uses that panics
			err := test.ask(t.Context(), c)
			var bug *chain.Panic
			var e *Error
			if !errors.As(err, &bug) || !errors.As(err, &e) || e.Class != Fatal || !strings.HasPrefix(err.Error(), test.subject) {
				t.Errorf("got %v, want %s", err, test.subject)
			}
			if !strings.Contains(log.String(), "made us panic") || !strings.Contains(log.String(), "goroutine") {
				t.Errorf("logged %s", &log)
			}
			if s := c.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.ReadAhead != 0 {
				t.Errorf("left over: %+v", s)
			}
		})
	}
}
