package sidecar

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zsidecar/zsidecar/cmd/zsidecar/internal/config"
	"github.com/zsidecar/zsidecar/pkg/chain"
)

// floodJSON asks for the transactions of an address from 90 connections until the returned function is called, which tells how many
// answers came and how many were refused.
func floodJSON(t *testing.T, s *Sidecar, address string) (end func() (answers, busy int64)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 90}}
	body := fmt.Sprintf(`{"id":1,"method":"getaddresstxids","params":["%s"]}`, address)
	var answered, refused atomic.Int64
	var wait sync.WaitGroup
	for range 90 {
		wait.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.JSONRPCAddr(), strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch {
				case err == nil && strings.HasPrefix(string(text), `{"id":1,"result":["`):
					answered.Add(1)
				case err == nil && strings.Contains(string(text), `"code":-32009`):
					refused.Add(1)
				case ctx.Err() == nil:
					t.Errorf("%s, %v", text, err)
					return
				}
			}
		})
	}
	return func() (int64, int64) {
		cancel()
		wait.Wait()
		client.CloseIdleConnections()
		return answered.Load(), refused.Load()
	}
}

// A flood of JSON-RPC questions takes nothing from ranges of blocks, and wallets' own questions about addresses do not stand behind it.
func TestFloodOfJSONRPC(t *testing.T) {
	to := chain.TransparentAddress{Hash: [20]byte{7}}
	address := to.String(chain.TestNetwork)
	const least, mostLists = 0.6, 12 // of 90; 5 are right, and a busy machine counts them down late
	n, blocks, lists := slowNode(t, to)
	s, _ := run(t, settings(t, func(c *config.Config) { c.Zebra, c.NoIndex, c.HTTP, c.JSONRPC = n.URL(), true, "", "127.0.0.1:0" }))
	client := connect(t, s)
	await(t, "the tip is known", func() bool { return s.client.Tip().Up() })
	alone := readRange(t, client)
	meanAlone := blocks.mean()
	end := floodJSON(t, s, address)
	await(t, "the flood is in full swing", func() bool { return lists.asked.Load() > 10 })
	blocks.mean()
	flooded := readRange(t, client)
	mean := blocks.mean()
	for range 5 {
		if answers, err := addressAnswers(t.Context(), client, address)["GetTaddressTxids"](); err != nil || answers == 0 {
			t.Errorf("a wallet's question in the flood: %d, %v", answers, err)
		}
		if status, got := askJSON(t, s, "", "getblockcount", "[]"); status != http.StatusOK || !strings.Contains(got, `"error":null`) {
			t.Errorf("getblockcount in the flood: %d %s", status, got)
		}
	}
	answers, busy := end()
	t.Logf("a range of %d blocks: %v alone, %v in the flood (%.1f and %.1f at zebra), which got %d answers and %d refusals (at most %d at zebra)",
		floodBlocks, alone, flooded, meanAlone, mean, answers, busy, lists.most.Load())
	if mean < least*meanAlone || lists.most.Load() > mostLists || answers == 0 {
		t.Errorf("%.1f blocks were asked for at one time alone, %.1f in the flood, and %d lists", meanAlone, mean, lists.most.Load())
	}
}
