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
	"os"
	"slices"
	"strings"
	"time"
)

// nodeAnswerTime is how long one call of the node may take; one that mines a hundred blocks takes seconds.
const nodeAnswerTime = 2 * time.Minute

// NodeOptions is the Zebra behind the targets, which some scenarios ask, and let mine and move its chain.
type NodeOptions struct {
	URL        string // of its JSON-RPC server, such as http://127.0.0.1:18232
	CookieFile string // read before every call; "" without
	// Instead of a cookie. The file holds the password alone.
	User, PasswordFile string
	// MineTo is the address that mined blocks pay. "" means the node's own mining.miner_address.
	MineTo string
}

// node asks Zebra. It is no client of pkg/zebrarpc: what is measured shall not be measured with itself.
type node struct {
	options NodeOptions
	http    *http.Client
}

// newNode checks the options; a node that is not on this machine is refused unless it is said to be the caller's own.
func newNode(o NodeOptions, own bool) (*node, error) {
	if !strings.Contains(o.URL, "://") {
		o.URL = "http://" + o.URL
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Port() == "" {
		return nil, inputError("the node %q: an address as in http://127.0.0.1:18232 is needed", o.URL)
	}
	if (o.User == "") != (o.PasswordFile == "") || o.User != "" && o.CookieFile != "" {
		return nil, inputError("the node %s: a user and a file with the password, or a cookie", o.URL)
	}
	if !own && !onThisMachine(u.Hostname()) {
		return nil, inputError("the node %s is not on this machine, and its chain would be moved: say --i-own-this-server if it is yours", o.URL)
	}
	return &node{options: o, http: &http.Client{Timeout: nodeAnswerTime, Transport: &http.Transport{DisableCompression: true}}}, nil
}

func (n *node) close() { n.http.CloseIdleConnections() }

// nodeError is a refusal of the node.
type nodeError struct {
	Code    int
	Message string
}

func (e *nodeError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// call asks the node and decodes the result, which may be nil.
func (n *node) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	answer, err := n.post(ctx, body)
	if err != nil {
		return fmt.Errorf("ask zebra at %s for %s: %w", n.options.URL, method, err)
	}
	reply := struct {
		Result any
		Error  *nodeError
	}{Result: result}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return fmt.Errorf("ask zebra at %s for %s: %w", n.options.URL, method, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("zebra at %s refuses %s: %w", n.options.URL, method, reply.Error)
	}
	return nil
}

func (n *node) post(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.options.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	user, password, err := n.login()
	if err != nil {
		return nil, err
	}
	if user != "" || password != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := n.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP status %s", resp.Status)
	}
	return answer, err
}

// login reads what the node asks for. It may have made a new cookie since the last call.
func (n *node) login() (user, password string, err error) {
	file := n.options.CookieFile
	if file == "" {
		file = n.options.PasswordFile
	}
	if file == "" {
		return "", "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	secret := strings.TrimSpace(string(text))
	if n.options.CookieFile == "" {
		return n.options.User, secret, nil
	}
	user, password, found := strings.Cut(secret, ":")
	if !found { // the password alone, which zsidecar takes too
		user, password = "__cookie__", secret
	}
	return user, password, nil
}

// blockRef is a height with the hash of its block in display order, as Zebra writes it.
type blockRef struct {
	height uint32
	hash   string
	prev   string // the parent's; "" when it is not known
}

// tip returns the node's newest block.
func (n *node) tip(ctx context.Context) (blockRef, error) {
	var info struct {
		Blocks        uint32
		BestBlockHash string
	}
	err := n.call(ctx, &info, "getblockchaininfo")
	return blockRef{height: info.Blocks, hash: info.BestBlockHash}, err
}

// hashAt returns the hash of the block at a height of the best chain.
func (n *node) hashAt(ctx context.Context, height uint32) (hash string, err error) {
	err = n.call(ctx, &hash, "getblockhash", height)
	return hash, err
}

// generate adds blocks and returns their hashes. The node's tip may be the last of them a moment later; see awaitTip.
func (n *node) generate(ctx context.Context, count int) (hashes []string, err error) {
	if n.options.MineTo == "" {
		err = n.call(ctx, &hashes, "generate", count)
	} else {
		err = n.call(ctx, &hashes, "generatetoaddress", count, n.options.MineTo)
	}
	if err == nil && len(hashes) != count {
		err = fmt.Errorf("zebra at %s was told to mine %d blocks and mined %d", n.options.URL, count, len(hashes))
	}
	return hashes, err
}

// invalidate takes a block and all above it out of the chain, and returns when the node's tip is its parent.
func (n *node) invalidate(ctx context.Context, block blockRef) error {
	parent, err := n.hashAt(ctx, block.height-1)
	if err != nil {
		return err
	}
	if err := n.call(ctx, nil, "invalidateblock", block.hash); err != nil {
		return err
	}
	return n.awaitTip(ctx, parent)
}

// reconsider takes an invalidation back. The node's tip changes a moment later.
func (n *node) reconsider(ctx context.Context, hash string) error {
	return n.call(ctx, nil, "reconsiderblock", hash)
}

// awaitTip waits until a block is the node's tip, which is a moment after the call that makes it so has been answered.
func (n *node) awaitTip(ctx context.Context, hash string) error {
	const patience = 10 * time.Second
	var tip blockRef
	err := poll(ctx, patience, func() (done bool, err error) {
		tip, err = n.tip(ctx)
		return tip.hash == hash, err
	})
	if errors.Is(err, errPatience) {
		return fmt.Errorf("zebra at %s: its tip is %s at height %d, and not %s within %v", n.options.URL, tip.hash, tip.height, hash, patience)
	}
	return err
}

// send hands a transaction to the node.
func (n *node) send(ctx context.Context, raw []byte) error {
	return n.call(ctx, nil, "sendrawtransaction", hex.EncodeToString(raw))
}

// mempool returns the ids of the transactions in the node's mempool in display order, sorted.
func (n *node) mempool(ctx context.Context) (ids []string, err error) {
	err = n.call(ctx, &ids, "getrawmempool")
	slices.Sort(ids)
	return ids, err
}

// How long poll waits between two questions: a fiftieth of what it has waited so far, so that what is measured in this way is at most 2 %
// too long, and the asking does not slow down what takes long.
const (
	shortestPause = 2 * time.Millisecond
	longestPause  = 50 * time.Millisecond
)

// errPatience says that what was waited for has not happened in time.
var errPatience = errors.New("waited in vain")

// poll asks until it is done, and fails with errPatience when that takes longer than patience.
func poll(ctx context.Context, patience time.Duration, ask func() (done bool, err error)) error {
	for begin := time.Now(); ; {
		done, err := ask()
		waited := time.Since(begin)
		switch {
		case err != nil || done:
			return err
		case waited > patience:
			return errPatience
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(max(waited/50, shortestPause), longestPause)):
		}
	}
}
