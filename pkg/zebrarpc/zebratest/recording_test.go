package zebratest

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

var update = flag.Bool("update", false, "TestShapesMatchZebrad writes testdata/zebrad-7.0.0.json.gz anew")

// recordingFile holds what a real node was asked and answered, so that the simulated one is pinned also where no zebrad is.
const recordingFile = "testdata/zebrad-7.0.0.json.gz"

type recording struct {
	Upgrades []chain.Upgrade
	Blocks   []string // hex, genesis first
	Asked    []recorded
}

type recorded struct {
	Verb, ContentType, Body string // of the question
	Closed                  bool   `json:",omitempty"`
	Status                  int
	ReplyType, Reply        string
}

// record asks a real node and keeps the answers. Questions with an unusual size or other credentials are left out.
func record(t *testing.T, z endpoint, c *Chain, questions []question) {
	t.Helper()
	r := recording{Upgrades: c.upgrades}
	for h := range c.Tip().Height + 1 {
		r.Blocks = append(r.Blocks, hexOf(rawBlock(t, c, h)))
	}
	for _, q := range questions {
		if q.auth != nil || len(q.body) > 1000 {
			continue
		}
		a := z.ask(t, q)
		r.Asked = append(r.Asked, recorded{q.verb, q.contentType, q.body, a.closed, a.status, a.contentType, string(a.body)})
	}
	file, err := os.Create(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if err := errors.Join(json.NewEncoder(packed).Encode(r), packed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestShapesMatchRecording compares the simulated node with what the real one answered when the recording was made.
func TestShapesMatchRecording(t *testing.T) {
	t.Parallel()
	file, err := os.Open(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var r recording
	if err := json.NewDecoder(unpacked).Decode(&r); err != nil {
		t.Fatal(err)
	}
	c, err := NewChain(ChainOptions{Network: Regtest, Genesis: fromHex(t, r.Blocks[0]), Upgrades: r.Upgrades})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Blocks[1:] {
		if err := c.Append(fromHex(t, b)); err != nil {
			t.Fatal(err)
		}
	}
	n := NewNode(c, NodeOptions{})
	start(t, n)
	if len(r.Asked) < 300 {
		t.Fatalf("only %d questions are recorded", len(r.Asked))
	}
	for _, q := range r.Asked {
		asked := question{verb: q.Verb, contentType: q.ContentType, body: q.Body}
		real := answer{q.Closed, q.Status, q.ReplyType, []byte(q.Reply)}
		for _, d := range differences(t, real, endpoint{url: n.URL()}.ask(t, asked), notModelled()) {
			t.Errorf("%s: %s", asked, d)
		}
	}
}
