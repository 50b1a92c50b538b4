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

var update = flag.Bool("update", false, "write the recordings in testdata anew from a real node")

// What a real node was asked and answered, so that the simulated one is pinned also where no zebrad is.
const (
	recordingFile = "testdata/zebrad-7.0.0.json.gz"
	mempoolFile   = "testdata/mempool-7.0.0.json.gz"
)

type recording struct {
	Upgrades []chain.Upgrade
	Blocks   []string // hex, genesis first
	Asked    []recorded

	// Of the mempool: a transaction, what it spends, and the block on top of Blocks that it came into.
	Raw, Coinbase, Mined string `json:",omitempty"`
}

type recorded struct {
	Verb, ContentType, Body string // of the question
	Closed                  bool   `json:",omitempty"`
	Status                  int
	ReplyType, Reply        string
}

// tape is a real node whose answers are kept.
type tape struct {
	endpoint
	recording recording
}

// newTape begins with the blocks of the chain.
func newTape(t *testing.T, z endpoint, c *Chain) *tape {
	t.Helper()
	r := &tape{endpoint: z, recording: recording{Upgrades: c.upgrades}}
	for h := range c.Tip().Height + 1 {
		r.recording.Blocks = append(r.recording.Blocks, hexOf(rawBlock(t, c, h)))
	}
	return r
}

func (r *tape) ask(t testing.TB, q question) answer {
	t.Helper()
	a := r.endpoint.ask(t, q)
	r.recording.Asked = append(r.recording.Asked, recorded{q.verb, q.contentType, q.body, a.closed, a.status, a.contentType, string(a.body)})
	return a
}

// player answers what was asked of a tape, in the same order.
type player struct{ left []recorded }

func (p *player) ask(t testing.TB, q question) answer {
	t.Helper()
	if len(p.left) == 0 || p.left[0].Body != q.body {
		t.Fatalf("the recording does not go on with %s: make it anew with -update", q)
	}
	r := p.left[0]
	p.left = p.left[1:]
	return answer{r.Closed, r.Status, r.ReplyType, []byte(r.Reply)}
}

// record asks a real node and keeps the answers. Questions with an unusual size or other credentials are left out.
func record(t *testing.T, z endpoint, c *Chain, questions []question) {
	t.Helper()
	r := newTape(t, z, c)
	for _, q := range questions {
		if q.auth != nil || len(q.body) > 1000 {
			continue
		}
		r.ask(t, q)
	}
	r.recording.write(t, recordingFile)
}

func (r *recording) write(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	if err := errors.Join(json.NewEncoder(packed).Encode(r), packed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func readRecording(t *testing.T, path string) (r recording) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(unpacked).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// chain is a simulated node's, with the recorded blocks.
func (r *recording) chain(t *testing.T) *Chain {
	t.Helper()
	c, err := NewChain(ChainOptions{Network: Regtest, Genesis: fromHex(t, r.Blocks[0]), Upgrades: r.Upgrades})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Blocks[1:] {
		if err := c.Append(fromHex(t, b)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestShapesMatchRecording compares the simulated node with what the real one answered when the recording was made.
func TestShapesMatchRecording(t *testing.T) {
	t.Parallel()
	r := readRecording(t, recordingFile)
	n := NewNode(r.chain(t), NodeOptions{})
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
