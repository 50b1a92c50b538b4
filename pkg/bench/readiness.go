package bench

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// readiness is what became of a server after its start.
type readiness struct {
	first, complete time.Duration // since the start: the first answers, and the complete index
	served          blockRef      // the tip that it named last
}

// starting is a server that was just started and is waited for.
type starting struct {
	*server
	tip      blockRef // the node's, which it has to serve
	complete completeAsker
	conn     *grpc.ClientConn // nil: nothing has been answered on it
	got      readiness
}

// awaitComplete waits until a server that was just started answers and has a complete index. seen is told of the height that it has reached.
func (r *run) awaitComplete(ctx context.Context, s *server, seen func(since time.Duration, height uint32)) (readiness, error) {
	w := starting{server: s, complete: completeAsker{url: s.start.Complete}}
	defer w.close()
	var err error
	if r.node != nil {
		if w.tip, err = r.node.tip(ctx); err != nil {
			return w.got, err
		}
	}
	patience := r.options.BuildTime - time.Since(s.child.started)
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error // why it is not there yet
	err = poll(ctx, patience, func() (done bool, err error) {
		if !s.child.running() {
			return false, s.child.ended()
		}
		var height uint32
		done, height, err = w.progress(limited)
		switch {
		case err == nil:
			seen(time.Since(s.child.started), height)
		case limited.Err() == nil || last == nil: // the end of all patience is the worst of reasons
			last = err
		}
		return done, nil
	})
	switch {
	case errors.Is(err, errPatience) && w.got.first == 0:
		return w.got, fmt.Errorf("%s has not answered within %v: %w; the last of its output (%s):\n%s",
			s.target.Name, r.options.BuildTime, last, s.child.log.Name(), s.child.lastLines())
	case errors.Is(err, errPatience):
		return w.got, fmt.Errorf("the index of %s is not complete within %v: %s; the last of its output (%s):\n%s",
			s.target.Name, r.options.BuildTime, w.reached(), s.child.log.Name(), s.child.lastLines())
	case err != nil:
		return w.got, err
	}
	return w.got, r.checkServed(ctx, s.target.Name, w.got.served)
}

// reached says how far the server is.
func (w *starting) reached() string {
	text := fmt.Sprintf("it serves height %d", w.got.served.height)
	if w.tip.hash != "" {
		text += fmt.Sprintf(" of %d", w.tip.height)
	}
	if w.complete.url != "" {
		text += fmt.Sprintf(", and %s says %s", w.complete.url, w.complete.said)
	}
	return text
}

// progress asks the server how far it is.
func (w *starting) progress(ctx context.Context) (done bool, height uint32, err error) {
	served, err := w.served(ctx)
	if err != nil {
		return false, 0, err
	}
	since := time.Since(w.child.started)
	if w.got.first == 0 {
		w.got.first = since
	}
	w.got.served, height = served, served.height
	done = served.height >= w.tip.height
	if w.complete.url != "" {
		var whole bool
		if whole, height, err = w.complete.ask(ctx, height); err != nil {
			if ctx.Err() == nil {
				w.complete.said = "nothing: " + err.Error()
			}
			return false, 0, err
		}
		done = done && whole
		since = time.Since(w.child.started)
	}
	if done {
		w.got.complete = since
	}
	return done, height, nil
}

// served asks what a wallet asks first, and on a new connection until that has been answered: a connection that failed waits before it is
// tried again.
func (w *starting) served(ctx context.Context) (served blockRef, err error) {
	if w.conn == nil {
		if w.conn, err = dial(w.target); err != nil {
			return served, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if served, err = servedTip(ctx, walletrpc.NewCompactTxStreamerClient(w.conn)); err != nil {
		w.conn.Close()
		w.conn = nil
	}
	return served, err
}

func (w *starting) close() {
	w.complete.http.CloseIdleConnections()
	if w.conn != nil {
		w.conn.Close()
	}
}

// servedTip asks a server for its tip, which GetLatestBlock and GetBlock have to name alike.
func servedTip(ctx context.Context, wallet walletrpc.CompactTxStreamerClient) (served blockRef, err error) {
	tip, err := wallet.GetLatestBlock(ctx, &walletrpc.ChainSpec{})
	if err != nil {
		return served, fmt.Errorf("GetLatestBlock: %w", err)
	}
	block, err := wallet.GetBlock(ctx, &walletrpc.BlockID{Height: tip.Height})
	if err != nil {
		return served, fmt.Errorf("GetBlock %d: %w", tip.Height, err)
	}
	if block.Height != tip.Height || !bytes.Equal(block.Hash, tip.Hash) {
		return served, fmt.Errorf("GetLatestBlock names %d %x, and GetBlock gives %d %x", tip.Height, tip.Hash, block.Height, block.Hash)
	}
	return blockRef{height: uint32(tip.Height), hash: displayHex(tip.Hash), prev: displayHex(block.PrevHash)}, nil
}

// checkServed holds a tip that a server names against the node's chain.
func (r *run) checkServed(ctx context.Context, name string, served blockRef) error {
	if r.node == nil {
		return nil
	}
	hash, err := r.node.hashAt(ctx, served.height)
	if err != nil {
		return fmt.Errorf("%s serves height %d: %w", name, served.height, err)
	}
	if hash != served.hash {
		return fmt.Errorf("%s serves %s at height %d, where the node has %s", name, served.hash, served.height, hash)
	}
	return nil
}

// displayHex writes a hash of the wallet protocol, which is in internal order, as Zebra does.
func displayHex(hash []byte) string {
	display := slices.Clone(hash)
	slices.Reverse(display)
	return hex.EncodeToString(display)
}

// checkComplete refuses what cannot be asked whether an index is complete, and other machines: it is asked up to hundreds of times a second.
func checkComplete(text string, own bool) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is no URL that says whether the index is complete (--complete), as http://127.0.0.1:9998/healthz is", text)
	case !own && !onThisMachine(u.Hostname()):
		return fmt.Errorf("%s is not on this machine: say --i-own-this-server if it is yours", text)
	}
	return nil
}

// completeAsker asks a URL of a server whether its index is complete.
type completeAsker struct {
	url  string
	http http.Client
	said string // the last answer, or why there was none
}

// ask returns the height of the index as well, when it is told; otherwise the one that the server serves.
func (c *completeAsker) ask(ctx context.Context, served uint32) (complete bool, height uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return false, 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, 0, err
	}
	complete, c.said = resp.StatusCode == http.StatusOK, resp.Status
	var health struct {
		Index *struct {
			State  string
			Height *uint32
		}
	}
	if json.Unmarshal(text, &health) != nil || health.Index == nil {
		return complete, served, nil // a URL that answers with its status alone
	}
	c.said = fmt.Sprintf("%s, state %q", resp.Status, health.Index.State)
	if health.Index.Height == nil {
		return false, 0, nil
	}
	return complete && health.Index.State == "complete", *health.Index.Height, nil
}
