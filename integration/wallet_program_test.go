package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lightWallet is one account of the program in integration/wallet: wallet software as others use it, behind a command line of ours.
type lightWallet struct {
	tb      testing.TB
	name    string
	binary  string
	options []string
	walletAddresses
}

// walletAddresses are those that blocks may pay: the one of each pool, and all in one. Orchard is also the address for Ironwood.
type walletAddresses struct{ Unified, Orchard, Sapling, Transparent string }

// Two seeds; the addresses follow from them.
const (
	payerSeed = "70617965722070617965722070617965722070617965722070617965722e2e2e"
	payeeSeed = "70617965652070617965652070617965652070617965652070617965652e2e2e"
)

// offlineWallet returns a wallet that can only tell its addresses. Those depend on the network, not on any upgrade's height.
func offlineWallet(tb testing.TB, seed string) *lightWallet {
	tb.Helper()
	w := &lightWallet{tb: tb, name: "wallet", binary: walletPath(tb), options: []string{"--seed", seed, "--upgrades", "Sapling=1"}}
	w.run(&w.walletAddresses, "addresses")
	return w
}

// newLightWallet creates a wallet with a birthday. It takes the activation heights from the node, and all else from the server.
func newLightWallet(tb testing.TB, name, seed string, n *node, server string, birthday int) *lightWallet {
	tb.Helper()
	var info struct {
		Upgrades map[string]struct {
			Name             string
			ActivationHeight int
		}
	}
	n.call(&info, "getblockchaininfo")
	var upgrades []string
	for _, u := range info.Upgrades {
		upgrades = append(upgrades, fmt.Sprintf("%s=%d", u.Name, u.ActivationHeight))
	}
	slices.Sort(upgrades)
	w := offlineWallet(tb, seed)
	w.name = name
	w.options = []string{
		"--seed", seed, "--upgrades", strings.Join(upgrades, ","),
		"--database", filepath.Join(tb.TempDir(), "wallet.sqlite"), "--server", "http://" + server,
	}
	w.run(nil, "create", strconv.Itoa(birthday))
	return w
}

// run executes one command and decodes the line that it prints.
func (w *lightWallet) run(result any, command ...string) {
	w.tb.Helper()
	const limit = 5 * time.Minute // a proof with a cold key on a busy machine
	p := startProcess(w.tb, w.name+" "+command[0], w.binary, append(slices.Clone(w.options), command...)...)
	select {
	case <-p.done:
	case <-time.After(limit):
		w.tb.Fatalf("%s %v is still running after %v", w.name, command, limit)
	}
	output := p.output.String()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		w.tb.Fatalf("%s %v: exit code %d: %s", w.name, command, code, output)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal([]byte(output), result); err != nil {
		w.tb.Fatalf("%s %v: %v in %q", w.name, command, err, output)
	}
	w.tb.Logf("%s %v: %v, %s", w.name, command, time.Since(p.started).Round(10*time.Millisecond), strings.TrimSpace(output))
}

// walletBalance is in zatoshi.
type walletBalance struct {
	Tip, Scanned                            int
	Total                                   uint64
	Sapling, Orchard, Ironwood, Transparent poolBalance
}

// poolBalance splits what one pool holds by when it can be spent.
type poolBalance struct {
	Spendable     uint64
	ChangePending uint64 `json:"change_pending"`
	Pending       uint64
}

func (p poolBalance) total() uint64 { return p.Spendable + p.ChangePending + p.Pending }

// sync brings the wallet to the server's tip.
func (w *lightWallet) sync() walletBalance {
	w.tb.Helper()
	var b walletBalance
	w.run(&b, "sync")
	return b
}

// balance is what the wallet thinks without asking anybody.
func (w *lightWallet) balance() walletBalance {
	w.tb.Helper()
	var b walletBalance
	w.run(&b, "balance")
	return b
}

// sentPayment is a payment that the server took.
type sentPayment struct {
	TxID string // display order
	Fee  uint64 // zatoshi, by the wallet's account
}

// send pays an address.
func (w *lightWallet) send(to string, amount uint64, memo string) sentPayment {
	w.tb.Helper()
	var p sentPayment
	w.run(&p, "send", to, strconv.FormatUint(amount, 10), memo)
	return p
}

// resend hands the server a payment once more, that the wallet made before.
func (w *lightWallet) resend(txid string) {
	w.tb.Helper()
	w.run(nil, "resend", txid)
}

// walletStatus is where a transaction stands.
type walletStatus struct {
	Server  string // mined, unmined or unknown
	Height  int    // where it was mined, by the server
	Scanned int    // where it was mined, by the blocks that the wallet has scanned; 0 where they do not hold it
}

// transaction asks the server and the wallet's own records about a transaction.
func (w *lightWallet) transaction(txid string) walletStatus {
	w.tb.Helper()
	var s walletStatus
	w.run(&s, "transaction", txid)
	return s
}

// mempoolWatch is an open mempool stream.
type mempoolWatch struct {
	tb   testing.TB
	proc *process
}

// mempoolEvent is a line of the watch: the stream is open, a transaction came, or the server ended the stream.
type mempoolEvent struct {
	Event  string
	TxID   string
	Height uint64
	Notes  []walletNote // that the wallet can read
}

type walletNote struct {
	Pool     string
	Value    uint64
	Transfer string // Incoming, AccountInternal or Outgoing
	Memo     string
}

// watchMempool opens a mempool stream and returns once the server has answered.
func (w *lightWallet) watchMempool() *mempoolWatch {
	w.tb.Helper()
	p := startProcess(w.tb, w.name+" mempool", w.binary, append(slices.Clone(w.options), "mempool")...)
	m := &mempoolWatch{w.tb, p}
	m.await("open", "", 15*time.Second)
	return m
}

// await waits for an event, of the transaction where one is named.
func (m *mempoolWatch) await(event, txid string, limit time.Duration) mempoolEvent {
	m.tb.Helper()
	var found mempoolEvent
	await(m.tb, fmt.Sprintf("the mempool stream says %q %s", event, txid), limit, func() bool {
		for _, e := range m.events() {
			if e.Event == event && e.TxID == txid {
				found = e
				return true
			}
		}
		if !m.proc.running() && event != "end" {
			m.tb.Fatalf("the mempool stream ended before %q %s: %s", event, txid, m.proc.output)
		}
		return false
	})
	return found
}

// events decodes the whole lines that the watch has printed.
func (m *mempoolWatch) events() []mempoolEvent {
	m.tb.Helper()
	output := m.proc.output.String()
	var events []mempoolEvent
	for line := range strings.Lines(output[:strings.LastIndexByte(output, '\n')+1]) {
		var e mempoolEvent
		if err := json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&e); err != nil {
			m.tb.Fatalf("the mempool stream: %s", output)
		}
		events = append(events, e)
	}
	return events
}
