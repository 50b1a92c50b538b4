package zebratest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// miningFile holds what a real node said to miningScript, with the names of the blocks for their hashes.
const miningFile = "testdata/mining-7.0.0.txt"

// miningScript mines and moves the chain. Each line is a call; a block that is mined for the first time gets the next name: b1, b2, …
func miningScript() []string {
	const pay = `,"` + transparentAddress + `"]`
	return []string{
		`generatetoaddress [5` + pay, // b1 to b5
		`generatetoaddress [0` + pay,
		`generatetoaddress`, `generatetoaddress []`, `generatetoaddress [1]`, `generatetoaddress ["1"` + pay, `generatetoaddress [-1` + pay,
		`generatetoaddress [null` + pay, `generatetoaddress [1,5]`, `generatetoaddress [4294967296` + pay,
		`generatetoaddress {"num_blocks":1,"address":"` + transparentAddress + `"}`, // b6
		`generatetoaddress [1,""]`, `generatetoaddress [1,"x"]`, `generatetoaddress [1,"t1Hsc1LR8yKnbbe3twRp88p6vFfC5t7DLbs"]`,
		`generate`, `generate [-1]`, `generate ["1"]`, `generate [1.5]`,
		`invalidateblock`, `invalidateblock [5]`, `invalidateblock [""]`, `invalidateblock ["x"]`, `invalidateblock ["xx"]`,
		`invalidateblock ["` + unknownHash + `"]`, `invalidateblock ["` + notHex + `"]`, `invalidateblock ["` + unknownHash + `00"]`,
		`reconsiderblock`, `reconsiderblock [null]`, `reconsiderblock ["x"]`, `reconsiderblock ["` + unknownHash + `"]`,
		`invalidateblock ["b1"]`, // the root
		`reconsiderblock ["b5"]`, // was never invalidated
		`invalidateblock ["b5"]`, // the tip is b4
		`invalidateblock ["b5"]`,
		`invalidateblock ["b6"]`,
		`generatetoaddress [1` + pay, // b7 beside b5
		`reconsiderblock ["b5"]`,     // b6 again, which is longer
		`reconsiderblock ["b5"]`,
		`invalidateblock ["b6"]`,     // b5, as old as b7 or older
		`generatetoaddress [2` + pay, // b8 and b9 on b5
		`invalidateblock ["b8"]`,     // b5 again
		`invalidateblock ["b5"]`,     // b7 is the other branch
		`generatetoaddress [2` + pay, // b10, b11 on b7
		`invalidateblock ["b7"]`,     // b4
		`reconsiderblock ["b7"]`,     // b11
		`invalidateblock ["b4"]`,     // b3
		`reconsiderblock ["b7"]`,     // is not what was invalidated
		`generatetoaddress [1` + pay, // b12 beside b4
		`reconsiderblock ["b4"]`,     // b11
	}
}

// miner plays miningScript at a node.
type miner struct {
	who    asker
	names  map[string]string // by hash, as hex in display order
	hashes map[string]string // by name
	log    strings.Builder
}

// play asks everything and returns what was answered and what the tip was then.
func (m *miner) play(t *testing.T) string {
	t.Helper()
	m.names, m.hashes = make(map[string]string), make(map[string]string)
	name := regexp.MustCompile(`"b\d+"`)
	for _, line := range miningScript() {
		method, params, _ := strings.Cut(line, " ")
		params = name.ReplaceAllStringFunc(params, func(s string) string { return `"` + m.hashes[strings.Trim(s, `"`)] + `"` })
		answer := m.who.ask(t, call(method, params))
		fmt.Fprintf(&m.log, "%s\n  %d %s\n  tip %s\n", line, answer.status, m.named(t, answer.body), m.tip(t))
	}
	return m.log.String()
}

// named puts the names of blocks into an answer, for hashes in both of Zebra's ways to write them.
func (m *miner) named(t *testing.T, body []byte) string {
	t.Helper()
	arrays := regexp.MustCompile(`\[(\d+,){31}\d+\]`)
	body = arrays.ReplaceAllFunc(body, func(list []byte) []byte {
		var numbers [32]byte
		var values []int
		if err := json.Unmarshal(list, &values); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			numbers[i] = byte(v)
		}
		return []byte("[numbers of " + chain.Hash(numbers).String() + "]")
	})
	hashes := regexp.MustCompile(`[0-9a-f]{64}`)
	body = hashes.ReplaceAllFunc(body, func(hash []byte) []byte {
		if string(hash) == unknownHash {
			return hash
		}
		if _, ok := m.names[string(hash)]; !ok {
			name := fmt.Sprintf("b%d", len(m.names)+1)
			m.names[string(hash)], m.hashes[name] = name, string(hash)
		}
		return []byte(m.names[string(hash)])
	})
	return string(bytes.TrimSpace(body))
}

// tip waits until the node names the same tip for a while: the real one answers just before it changes.
func (m *miner) tip(t *testing.T) string {
	t.Helper()
	var last string
	for same := 0; same < 3; {
		var hash string
		resultOf(t, m.who, &hash, "getbestblockhash", "")
		if same++; hash != last {
			same = 0
		}
		last = hash
		if _, simulated := m.who.(settled); !simulated {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if name, ok := m.names[last]; ok {
		return name
	}
	return "genesis"
}

// settled is a node whose answers come when its tip has changed.
type settled struct{ endpoint }

// TestMiningMatchesRecording compares the simulated node with what a real one said to the same calls.
func TestMiningMatchesRecording(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(miningFile)
	if err != nil {
		t.Fatal(err)
	}
	compareScripts(t, string(want), playSimulated(t))
}

// TestMiningMatchesZebrad asks a real node.
func TestMiningMatchesZebrad(t *testing.T) {
	z := startZebrad(t)
	real := (&miner{who: z}).play(t)
	if *update {
		if err := os.WriteFile(miningFile, []byte(real), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compareScripts(t, real, playSimulated(t))
}

func playSimulated(t *testing.T) string {
	t.Helper()
	c, err := NewChain(ChainOptions{Network: Regtest})
	if err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{})
	start(t, n)
	return (&miner{who: settled{endpoint{url: n.URL()}}}).play(t)
}

func compareScripts(t *testing.T, real, simulated string) {
	t.Helper()
	wants, gots := strings.Split(real, "\n"), strings.Split(simulated, "\n")
	if len(wants) != len(gots) {
		t.Fatalf("the real node said %d lines, the simulated one %d", len(wants), len(gots))
	}
	for i, want := range wants {
		if gots[i] != want {
			t.Errorf("%s:\n real      %s\n simulated %s", wants[i-i%3], want, gots[i])
		}
	}
}

// hashes asks for a list of hashes in display order.
func hashes(t *testing.T, e endpoint, method, params string) (list []string) {
	t.Helper()
	resultOf(t, e, &list, method, params)
	return list
}

// TestGenerate mines what is in the mempool, blocks that differ from each other, and nothing where there is proof of work.
func TestGenerate(t *testing.T) {
	t.Parallel()
	c, err := NewChain(ChainOptions{Network: Regtest})
	if err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{})
	start(t, n)
	e := endpoint{url: n.URL()}
	hashes(t, e, "generate", "[1]") // the root, which must stay
	ids := n.AddTransactions(readRecordedTransaction(t))
	mined := hashes(t, e, "generate", "[2]")
	var block struct{ Tx []string }
	resultOf(t, e, &block, "getblock", `["`+mined[0]+`",1]`)
	if len(block.Tx) != 2 || block.Tx[1] != ids[0].String() {
		t.Errorf("the block has the transactions %q, want the one of the mempool, %s, after the coinbase", block.Tx, ids[0])
	}
	if left := hashes(t, e, "getrawmempool", ""); len(left) != 0 {
		t.Errorf("the mempool still has %q", left)
	}
	resultOf(t, e, new(any), "invalidateblock", `["`+mined[0]+`"]`)
	n.AddTransactions(readRecordedTransaction(t))
	if again := hashes(t, e, "generate", "[2]"); again[0] == mined[0] || again[1] == mined[1] {
		t.Errorf("two branches have the blocks %q and %q: want others", mined, again)
	}

	main, err := NewChain(ChainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.SetChain(main)
	for _, q := range []question{call("generate", "[1]"), call("generatetoaddress", `[1,"`+transparentAddress+`"]`)} {
		if a := e.ask(t, q); !bytes.Contains(a.body, []byte("only supported on networks where PoW is disabled")) {
			t.Errorf("%s on the main network: %s", q, a.body)
		}
	}
}

func readRecordedTransaction(t *testing.T) []byte {
	t.Helper()
	return fromHex(t, readRecording(t, mempoolFile).Raw)
}

// TestInvalidateFinal leaves alone what Zebra can no longer replace, and forgets branches whose ground a script has taken away.
func TestInvalidateFinal(t *testing.T) {
	t.Parallel()
	c, err := NewChain(ChainOptions{Network: Regtest})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Extend(rollback+10, Small); err != nil {
		t.Fatal(err)
	}
	n := NewNode(c, NodeOptions{})
	start(t, n)
	e := endpoint{url: n.URL()}
	for h, want := range map[chain.Height]string{10: "not found in any non-finalized chain", 11: "it is the root of the only"} {
		hash, err := c.Hash(h)
		if err != nil {
			t.Fatal(err)
		}
		if a := e.ask(t, call("invalidateblock", `["`+hash.String()+`"]`)); !strings.Contains(string(a.body), want) {
			t.Errorf("invalidate height %d: %s, want %q", h, a.body, want)
		}
	}
	tip := c.Tip()
	resultOf(t, e, new(any), "invalidateblock", `["`+tip.Hash.String()+`"]`)
	if err := c.Reorg(5, 4, Small); err != nil {
		t.Fatal(err)
	}
	if a := e.ask(t, call("reconsiderblock", `["`+tip.Hash.String()+`"]`)); !strings.Contains(string(a.body), "Parent chain not found") {
		t.Errorf("reconsider a block without its parent: %s", a.body)
	}
}
