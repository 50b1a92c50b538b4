package zebratest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// question is one HTTP request, asked of two nodes.
type question struct {
	verb, contentType, body string
	auth                    func(cookie string) string // nil: the right credentials
}

// call is a plain JSON-RPC 2.0 question. params is JSON text; "" leaves it out.
func call(method, params string) question {
	if params != "" {
		params = `,"params":` + params
	}
	return body(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"` + params + `}`)
}

func body(text string) question {
	return question{verb: http.MethodPost, contentType: "application/json", body: text}
}

func (q question) String() string {
	return fmt.Sprintf("%s (%s) %.200s", q.verb, q.contentType, q.body)
}

// answer is all that a client can tell of the reply.
type answer struct {
	closed      bool // the connection was closed without a reply
	status      int
	contentType string
	body        []byte
}

// asker is whoever answers questions.
type asker interface {
	ask(testing.TB, question) answer
}

// endpoint is a node, real or simulated.
type endpoint struct{ url, cookieFile string }

func (e endpoint) ask(t testing.TB, q question) answer {
	t.Helper()
	var cookie []byte
	if e.cookieFile != "" {
		var err error
		if cookie, err = os.ReadFile(e.cookieFile); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), q.verb, e.url, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	if q.contentType != "" {
		req.Header.Set("Content-Type", q.contentType)
	}
	if q.auth == nil {
		q.auth = basic
	}
	if credentials := q.auth(string(cookie)); credentials != "" {
		req.Header.Set("Authorization", credentials)
	}
	req.Close = true // a kept connection that dies would hide behind a silent second try
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if errors.Is(err, t.Context().Err()) {
			t.Fatal(err)
		}
		return answer{closed: true}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return answer{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"), body: b}
}

func basic(cookie string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(cookie)) }

// differences compares two answers. Members are compared in their order, values by type when byType names the member.
func differences(t *testing.T, real, simulated answer, byType map[string]bool) []string {
	t.Helper()
	if real.closed || simulated.closed {
		if real.closed != simulated.closed {
			return []string{fmt.Sprintf("connection closed without a reply: %v, simulated %v", real.closed, simulated.closed)}
		}
		return nil
	}
	var diff []string
	if real.status != simulated.status || real.contentType != simulated.contentType {
		diff = append(diff, fmt.Sprintf("status %d %q, simulated %d %q", real.status, real.contentType, simulated.status, simulated.contentType))
	}
	if !json.Valid(real.body) || !json.Valid(simulated.body) {
		if !bytes.Equal(real.body, simulated.body) {
			diff = append(diff, fmt.Sprintf("body %.300q, simulated %.300q", real.body, simulated.body))
		}
		return diff
	}
	return append(diff, parseJSON(t, real.body).compare("", parseJSON(t, simulated.body), byType)...)
}

// node is a JSON value that keeps the order of members.
type node struct {
	kind    string
	raw     json.RawMessage
	members []member // of an object
	items   []node   // of an array
}

type member struct {
	name  string
	value node
}

func parseJSON(t *testing.T, text []byte) node {
	t.Helper()
	n := node{raw: bytes.TrimSpace(text)}
	d := json.NewDecoder(bytes.NewReader(n.raw))
	switch n.raw[0] {
	case '{':
		n.kind = "object"
		_, _ = d.Token()
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			n.members = append(n.members, member{name.(string), parseJSON(t, value)})
		}
	case '[':
		n.kind = "array"
		_, _ = d.Token()
		for d.More() {
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			n.items = append(n.items, parseJSON(t, value))
		}
	case '"':
		n.kind = "string"
	case 't', 'f':
		n.kind = "boolean"
	case 'n':
		n.kind = "null"
	default:
		n.kind = "integer"
		if bytes.ContainsAny(n.raw, ".eE") {
			n.kind = "float"
		}
	}
	return n
}

func (n node) compare(path string, sim node, byType map[string]bool) []string {
	if n.kind != sim.kind || len(n.members) != len(sim.members) || len(n.items) != len(sim.items) {
		return []string{fmt.Sprintf("%s is %s %.300s, simulated %s %.300s", path, n.kind, n.raw, sim.kind, sim.raw)}
	}
	var diff []string
	for i, m := range n.members {
		if m.name != sim.members[i].name {
			return append(diff, fmt.Sprintf("member %d of %s is %q, simulated %q", i, path, m.name, sim.members[i].name))
		}
		diff = append(diff, m.value.compare(path+"."+m.name, sim.members[i].value, byType)...)
	}
	for i, v := range n.items {
		diff = append(diff, v.compare(path+"[]", sim.items[i], byType)...)
	}
	scalar := n.kind != "object" && n.kind != "array"
	if scalar && !byType[path] && !bytes.Equal(n.raw, sim.raw) {
		diff = append(diff, fmt.Sprintf("%s is %.200s, simulated %.200s", path, n.raw, sim.raw))
	}
	return diff
}

// notModelled are the members whose values depend on what a Chain does not know: they are compared by type.
func notModelled() map[string]bool {
	byType := make(map[string]bool)
	for _, name := range []string{
		"difficulty", "finalsaplingroot", "finalorchardroot", // roots need the trees' hash functions
		"sapling.commitments.finalRoot", "sapling.commitments.finalState", // so does what is in them: TestTrees checks their sizes
		"orchard.commitments.finalRoot", "orchard.commitments.finalState",
		"ironwood.commitments.finalRoot", "ironwood.commitments.finalState",
		"size_on_disk", "estimatedheight", // time and disk
		"build", "connections", "errors", "errorstimestamp",
		"chainSupply.chainValue", "chainSupply.chainValueZat", "chainSupply.monitored",
		"valuePools[].chainValue", "valuePools[].chainValueZat", "valuePools[].monitored",
		"valuePools[].valueDelta", "valuePools[].valueDeltaZat",
		"currentblocksize", "networksolps", "networkhashps", "miner", "totalblocksubsidy",
	} {
		byType[".result."+name] = true
	}
	return byType
}

// compareNodes asks both the same questions and reports where the answers differ.
func compareNodes(t *testing.T, real, simulated asker, questions []question) {
	t.Helper()
	for _, q := range questions {
		for _, d := range differences(t, real.ask(t, q), simulated.ask(t, q), notModelled()) {
			t.Errorf("%s: %s", q, d)
		}
	}
}

// TestShapesMatchZebrad gives a simulated node the blocks of a real one, asks both the same questions and compares the answers.
func TestShapesMatchZebrad(t *testing.T) {
	z := startZebrad(t)
	z.mine(t, 6, transparentAddress)
	z.mine(t, 1, saplingAddress)
	z.mine(t, 1, orchardAddress)
	z.mine(t, 13, transparentAddress)
	z.mine(t, 1, orchardAddress) // from height 20 this address gets its coinbase in the Ironwood pool
	z.mine(t, 1, saplingAddress)
	z.mine(t, 20, transparentAddress) // beyond NU7
	c := z.copyChain(t)
	n := NewNode(c, NodeOptions{CookieDir: t.TempDir()})
	start(t, n)
	sim := endpoint{n.URL(), n.CookieFile()}
	sizes, err := c.Sizes(c.Tip().Height)
	if err != nil || sizes.Sapling == 0 || sizes.Orchard == 0 || sizes.Ironwood == 0 {
		t.Fatalf("the chain should have notes in all pools, it has %+v (%v)", sizes, err)
	}

	t.Run("transport", func(t *testing.T) { compareNodes(t, z, sim, transportQuestions()) })
	t.Run("versions", func(t *testing.T) { compareNodes(t, z, sim, versionQuestions()) })
	t.Run("wrong", func(t *testing.T) { compareNodes(t, z, sim, wrongQuestions()) })
	t.Run("right", func(t *testing.T) { compareNodes(t, z, sim, rightQuestions(t, c)) })
	t.Run("node", func(t *testing.T) { compareNodes(t, z, sim, nodeQuestions()) })
	t.Run("addresses", func(t *testing.T) { compareNodes(t, z, sim, addressQuestions()) })
	t.Run("trees", func(t *testing.T) { compareTrees(t, z, sim, c.Tip()) })

	if *update {
		questions := slices.Concat(transportQuestions(), versionQuestions(), wrongQuestions(), positionQuestions(),
			blockQuestions("0"), blockQuestions("1"), blockQuestions("9"), blockQuestions("-1"), blockQuestions(c.Tip().Hash.String()),
			treeQuestions(c.Tip().Height), addressQuestions(), nodeQuestions())
		record(t, z, c, questions)
	}

	// A reorg: the orphaned blocks must be as unknown to the one as to the other.
	at := c.Tip().Height - 3
	orphan, err := c.Hash(at)
	if err != nil {
		t.Fatal(err)
	}
	z.result(t, new(any), "invalidateblock", fmt.Sprintf(`["%s"]`, orphan))
	waitFor(t, "the orphaned block is gone", func() bool {
		var tip chain.Height
		z.result(t, &tip, "getblockcount", "")
		return tip == at-1
	})
	z.mine(t, 4, transparentAddress)
	n.SetChain(z.copyChain(t))
	t.Run("orphan", func(t *testing.T) { compareNodes(t, z, sim, blockQuestions(orphan.String())) })
	t.Run("other branch", func(t *testing.T) { compareNodes(t, z, sim, rightQuestions(t, n.Chain())) })
}
