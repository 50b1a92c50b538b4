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

func (e endpoint) locate(t *testing.T, id string) whereabouts {
	t.Helper()
	var w whereabouts
	e.result(t, &w, "getrawtransaction", `["`+id+`",1]`)
	return w
}

func (w whereabouts) String() string {
	text, _ := json.Marshal(w) // of plain members
	return string(text)
}

// mempool is the verbose list without fees and times.
func (e endpoint) mempool(t *testing.T) string {
	t.Helper()
	var list map[string]struct {
		Size, Height, DescendantCount, DescendantSize *int
		Depends                                       []string
	}
	e.result(t, &list, "getrawmempool", `[true]`)
	text, _ := json.Marshal(list) // of plain members
	return string(text)
}

// TestMempoolMatchesZebrad takes a transaction through the mempools of a real node and a simulated one.
func TestMempoolMatchesZebrad(t *testing.T) {
	z := startZebrad(t)
	z.mine(t, 110, anyoneCanSpend)
	n := NewNode(z.copyChain(t), NodeOptions{CookieDir: t.TempDir()})
	start(t, n)
	sim := endpoint{n.URL(), n.CookieFile()}

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
	tx, err := chain.NewEncoder(chain.EncoderOptions{}).Transaction(raw)
	if err != nil {
		t.Fatal(err)
	}
	id, send := tx.ID.String(), call("sendrawtransaction", `["`+hex.EncodeToString(raw)+`"]`)
	step := func(name string, found bool) {
		t.Helper()
		compareNodes(t, z, sim, append(transactionQuestions(id), transactionQuestions(coinbase.String())...))
		if got, want := sim.mempool(t), z.mempool(t); got != want {
			t.Errorf("%s: the mempool is %s, simulated %s", name, want, got)
		}
		ids := []string{coinbase.String()}
		if found {
			ids = append(ids, id)
		}
		for _, id := range ids {
			if got, want := sim.locate(t, id), z.locate(t, id); got.String() != want.String() {
				t.Errorf("%s: %s is %s, simulated %s", name, id, want, got)
			}
		}
	}
	step("before", false)
	compareNodes(t, z, sim, []question{send})
	step("sent", true)
	compareNodes(t, z, sim, []question{send})

	z.mine(t, 1, transparentAddress)
	n.SetChain(z.copyChain(t))
	step("mined", true)
	compareNodes(t, z, sim, []question{send})
	compareNodes(t, z, sim, []question{call("sendrawtransaction", `["`+z.locate(t, block.Tx[0].TxID).Hex+`"]`)}) // a coinbase

	// Two blocks take the place of the one that has the transaction.
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
	if err := n.Chain().Reorg(1, 2, Small); err != nil {
		t.Fatal(err)
	}
	found := func() bool {
		var reply struct{ Result string }
		return json.Unmarshal(z.ask(t, call("getrawtransaction", `["`+id+`"]`)).body, &reply) == nil && reply.Result != ""
	}
	waitFor(t, "the transaction is found again", found)
	if got, want := sim.locate(t, id), z.locate(t, id); got.String() != want.String() {
		t.Errorf("on a side chain: %s, simulated %s", want, got)
	}
}
