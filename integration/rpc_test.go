package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// rpcClient is a plain JSON-RPC client of Zebra. It is not pkg/zebrarpc, because it makes the expectations that the program's client
// is measured against.
type rpcClient struct {
	url, cookie string // cookie is the path of the cookie file, read before each call
	http        *http.Client
}

func newRPCClient(addr, cookie string) *rpcClient {
	return &rpcClient{
		url: "http://" + addr, cookie: cookie,
		http: &http.Client{
			Timeout:   3 * time.Minute, // a call that mines shielded blocks takes its time
			Transport: &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true},
		},
	}
}

// rpcError is Zebra's own refusal.
type rpcError struct {
	Code    int
	Message string
}

func (e *rpcError) Error() string { return fmt.Sprintf("code %d: %s", e.Code, e.Message) }

// call asks Zebra and decodes the result; result may be nil.
func (c *rpcClient) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	answer, err := c.post(ctx, body)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var reply struct {
		Result json.RawMessage
		Error  *rpcError
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("%s: %w", method, reply.Error)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fmt.Errorf("%s: decode result: %w", method, err)
	}
	return nil
}

// post sends one request body and returns the reply's body.
func (c *rpcClient) post(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	secret, err := os.ReadFile(c.cookie)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString(secret))
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %s", resp.Status)
	}
	return io.ReadAll(resp.Body)
}
