package zebrarpc

import (
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/zebrarpc/zebratest"
)

// Readers who have stopped reading hold a bounded number of bytes together, and take nothing from those who read on but the size of
// their parts.
func TestShelf(t *testing.T) {
	t.Parallel()
	to, address := payee()
	bc := newChain(t, 3, zebratest.Small)
	if err := bc.Extend(30, zebratest.Paying(to, 400)); err != nil { // 12,000 outputs, transactions of 14 kB
		t.Fatal(err)
	}
	c := nodeClient(t, Options{}, zebratest.NewNode(bc, zebratest.NodeOptions{}))
	utxos := c.AddressUtxos(t.Context(), []string{address}, 0, 0)
	txs := c.AddressTransactions(t.Context(), address, 1, 33)
	wantUtxos, pages, err := gather(utxos)
	if err != nil || pages != 2 {
		t.Fatalf("%d outputs in %d pages, %v", len(wantUtxos), pages, err)
	}
	wantTxs, parts, err := gather(txs)
	if err != nil || parts != (len(wantTxs)+transactionsAtOnce-1)/transactionsAtOnce {
		t.Fatalf("%d transactions in %d parts, %v", len(wantTxs), parts, err)
	}

	var stops []func()
	sizes := make(map[int]int)
	for range 60 {
		next, stop := iter.Pull2(utxos)
		stops = append(stops, stop)
		page, err, ok := next()
		if err != nil || !ok {
			t.Fatal(err, ok)
		}
		sizes[len(page)]++
	}
	if held, most := c.shelf.held.Load(), int64(shelfBytes+60*leastUtxos*utxoBytes); held > most || sizes[utxoPage] < 5 || sizes[leastUtxos] < 5 {
		t.Errorf("60 readers hold %d bytes, want at most %d; they got pages of %v", held, most, sizes)
	}
	gotUtxos, pages, err := gather(utxos)
	if err != nil || pages < 20 || !reflect.DeepEqual(gotUtxos, wantUtxos) {
		t.Errorf("beside them: %d outputs in %d pages, %v", len(gotUtxos), pages, err)
	}
	gotTxs, parts, err := gather(txs)
	if err != nil || parts <= len(wantTxs)/transactionsAtOnce+1 || !slices.EqualFunc(gotTxs, wantTxs, func(a, b chain.LocatedTransaction) bool {
		return a.Height == b.Height && slices.Equal(a.Raw, b.Raw)
	}) {
		t.Errorf("beside them: %d transactions in %d parts, %v", len(gotTxs), parts, err)
	}
	for _, stop := range stops {
		stop()
	}
	if held := c.shelf.held.Load(); held != 0 {
		t.Errorf("%d bytes are held by nobody", held)
	}
}

// Txids are read in parts of what there is room for.
func TestShelfOfTxids(t *testing.T) {
	t.Parallel()
	node := &fakeHistory{most: maxAddressResults}
	for h := range chain.Height(100) {
		node.heights = append(node.heights, repeat(h+1, 100)...)
	}
	c := fakeClient(t, Options{}, node.answer)
	sizes := func() (sizes []int) {
		for part, err := range c.addressTxids(t.Context(), "t1", 1, 100) {
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(part.ids))
		}
		return sizes
	}
	if got := sizes(); !slices.Equal(got, []int{10_000}) {
		t.Errorf("parts of %v", got)
	}
	defer c.shelf.put(shelfBytes)()
	if got := sizes(); slices.Max(got) > leastTxids || len(got) > 12 {
		t.Errorf("parts of %v when there is no room", got)
	}
}
