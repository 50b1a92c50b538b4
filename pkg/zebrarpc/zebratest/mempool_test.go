package zebratest

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// anyoneCanSpend pays to the hash of the script OP_1, so that no signature is needed.
const anyoneCanSpend = "t2SRyAR26tXTnZHfpa3jPqeyYmxCbAZxUnh"

// spend is a version 6 transaction that spends the first output of a coinbase that paid to anyoneCanSpend, back to it.
func spend(branch uint32, coinbase chain.TxID, value uint64) []byte {
	const fee = 50_000
	le := binary.LittleEndian
	var b []byte
	for _, word := range []uint32{6 | 1<<31, 0xD884B698, branch, 0, 0} { // lock time 0, no expiry
		b = le.AppendUint32(b, word)
	}
	b = append(append(b, 1), coinbase[:]...)
	b = le.AppendUint32(b, 0)
	b = append(b, 2, 1, 0x51) // pushes OP_1
	b = le.AppendUint32(b, 0xffff_ffff)
	b = le.AppendUint64(append(b, 1), value-fee)
	script, _ := hex.DecodeString("a914da1745e9b549bd0bfa1a569971c77eba30cd5a4b87")
	b = append(append(b, byte(len(script))), script...)
	return append(b, 0, 0, 0, 0) // nothing shielded
}

// transactionQuestions ask for a transaction that may be there, and wrongly.
func transactionQuestions(id string) []question {
	list := []question{call("getrawmempool", ""), call("getrawmempool", `[false]`), call("getrawmempool", `[null]`), call("getrawmempool", `["x"]`),
		call("getrawmempool", `[1]`), call("getrawtransaction", ""), call("getrawtransaction", `[5,1]`), call("getrawtransaction", `[null]`),
		call("sendrawtransaction", ""), call("sendrawtransaction", `[5]`), call("sendrawtransaction", `[null]`)}
	for _, params := range []string{`"%s"`, `"%s",0`, `"%s",null`, `"%s",true`, `"%s",-1`, `"%s",256`} {
		list = append(list, call("getrawtransaction", "["+fmt.Sprintf(params, id)+"]"))
	}
	for _, wrong := range []string{"", id[1:], id + "00", notHex, "0x" + id[2:], unknownHash} {
		list = append(list, call("getrawtransaction", `["`+wrong+`"]`), call("getrawtransaction", `["`+wrong+`",1]`))
	}
	for _, raw := range []string{"", "0", "zz", "0g", "00", "010203", "06000080", "0700008000000000000000000000000000000000"} {
		list = append(list, call("sendrawtransaction", `["`+raw+`"]`))
	}
	return list
}

// whereabouts are the members of a verbose answer that do not repeat the transaction.
type whereabouts struct {
	Active        *bool `json:"in_active_chain"`
	Hex           string
	Height        *int
	Confirmations *int
	Size          int
	TxID          string
	BlockHash     string
}

func locate(t *testing.T, a asker, id string) whereabouts {
	t.Helper()
	var w whereabouts
	resultOf(t, a, &w, "getrawtransaction", `["`+id+`",1]`)
	return w
}

func (w whereabouts) String() string {
	text, _ := json.Marshal(w) // of plain members
	return string(text)
}

// mempoolOf is the verbose list without fees and times.
func mempoolOf(t *testing.T, a asker) string {
	t.Helper()
	var list map[string]struct {
		Size, Height, DescendantCount, DescendantSize *int
		Depends                                       []string
	}
	resultOf(t, a, &list, "getrawmempool", `[true]`)
	text, _ := json.Marshal(list) // of plain members
	return string(text)
}

// journey is a transaction's way through the mempools of a real node, or of what one has answered, and of a simulated one.
type journey struct {
	real     asker
	node     *Node // simulated
	sim      endpoint
	raw      []byte
	id       string
	coinbase string // txid of what it spends
	mine     func() // makes both mine it, in the same block
	orphan   func() // makes other blocks take that one's place
}

func (j *journey) run(t *testing.T) {
	t.Helper()
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(j.raw)
	if err != nil {
		t.Fatal(err)
	}
	j.id = tx.ID.String()
	send := call("sendrawtransaction", `["`+hex.EncodeToString(j.raw)+`"]`)
	j.step(t, "before", false)
	compareNodes(t, j.real, j.sim, []question{send})
	j.step(t, "sent", true)
	compareNodes(t, j.real, j.sim, []question{send})
	j.mine()
	j.step(t, "mined", true)
	compareNodes(t, j.real, j.sim, []question{send})
	compareNodes(t, j.real, j.sim, []question{call("sendrawtransaction", `["`+locate(t, j.real, j.coinbase).Hex+`"]`)})
	j.orphan()
	j.expectPlace(t, "on a side chain", j.id)
}

func (j *journey) step(t *testing.T, name string, found bool) {
	t.Helper()
	compareNodes(t, j.real, j.sim, append(transactionQuestions(j.id), transactionQuestions(j.coinbase)...))
	if want, got := mempoolOf(t, j.real), mempoolOf(t, j.sim); got != want {
		t.Errorf("%s: the mempool is %s, simulated %s", name, want, got)
	}
	j.expectPlace(t, name, j.coinbase)
	if found {
		j.expectPlace(t, name, j.id)
	}
}

func (j *journey) expectPlace(t *testing.T, name, id string) {
	t.Helper()
	if want, got := locate(t, j.real, id).String(), locate(t, j.sim, id).String(); got != want {
		t.Errorf("%s: %s is %s, simulated %s", name, id, want, got)
	}
}

// TestMempoolMatchesZebrad takes a transaction through the mempools of a real node and a simulated one.
func TestMempoolMatchesZebrad(t *testing.T) {
	z := startZebrad(t)
	z.mine(t, 110, anyoneCanSpend)
	c := z.copyChain(t)
	n := NewNode(c, NodeOptions{CookieDir: t.TempDir()})
	start(t, n)
	var block struct {
		Tx []struct {
			TxID string
			Vout []struct{ ValueZat uint64 }
		}
	}
	z.result(t, &block, "getblock", `["5",2]`)
	coinbase, err := chain.ParseTxID(block.Tx[0].TxID)
	if err != nil {
		t.Fatal(err)
	}
	raw := spend(0x77190ad9, coinbase, block.Tx[0].Vout[0].ValueZat)
	tape := newTape(t, z, c)
	tape.recording.Raw, tape.recording.Coinbase = hexOf(raw), coinbase.String()
	j := journey{real: tape, node: n, sim: endpoint{n.URL(), n.CookieFile()}, raw: raw, coinbase: coinbase.String()}
	j.mine = func() {
		z.mine(t, 1, transparentAddress)
		n.SetChain(z.copyChain(t))
		tape.recording.Mined = hexOf(rawBlock(t, n.Chain(), 111))
	}
	j.orphan = func() {
		var hash string
		z.result(t, &hash, "getblockhash", `[111]`)
		z.result(t, new(any), "invalidateblock", `["`+hash+`"]`)
		waitFor(t, "the block is gone", func() bool {
			var tip chain.Height
			z.result(t, &tip, "getblockcount", "")
			return tip == 110
		})
		z.mine(t, 2, transparentAddress)
		z.result(t, new(any), "reconsiderblock", `["`+hash+`"]`)
		j.reorganize(t)
		waitFor(t, "the transaction is found again", func() bool {
			var reply struct{ Result string }
			return json.Unmarshal(z.ask(t, call("getrawtransaction", `["`+j.id+`"]`)).body, &reply) == nil && reply.Result != ""
		})
	}
	j.run(t)
	if *update {
		tape.recording.write(t, mempoolFile)
	}
}

// reorganize puts two blocks into the place of the last one of the simulated node.
func (j *journey) reorganize(t *testing.T) {
	t.Helper()
	if err := j.node.Chain().Reorg(1, 2, Small); err != nil {
		t.Fatal(err)
	}
}

// TestMempoolMatchesRecording takes a transaction through the mempool of a simulated node, and compares that with the way of the same
// transaction through a real one when the recording was made.
func TestMempoolMatchesRecording(t *testing.T) {
	t.Parallel()
	r := readRecording(t, mempoolFile)
	n := NewNode(r.chain(t), NodeOptions{})
	start(t, n)
	j := journey{real: &player{left: r.Asked}, node: n, sim: endpoint{url: n.URL()}, raw: fromHex(t, r.Raw), coinbase: r.Coinbase}
	j.mine = func() {
		if err := n.Chain().Append(fromHex(t, r.Mined)); err != nil {
			t.Fatal(err)
		}
	}
	j.orphan = func() { j.reorganize(t) }
	j.run(t)
	if left := len(j.real.(*player).left); left != 0 {
		t.Errorf("%d answers of the recording were not asked for", left)
	}
}
