package lightwallet

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// everything is the projection that leaves nothing out.
var everything = chain.Projection{Pools: chain.AllPools, KeepEmpty: true}

// encodedSource serves n blocks of serialized transactions, by the encoder and the projection that the real sources use. Its blocks are
// what the generated code reads in the full messages.
func encodedSource(t *testing.T, n int) *fakeSource {
	t.Helper()
	encoder, prev := chain.NewEncoder(chain.EncoderOptions{}), chain.Hash{}
	encoded := make([]chain.Block, n)
	messages := make([][]byte, n)
	source := &fakeSource{blocks: make([]*walletrpc.CompactBlock, n)}
	var sizes chain.TreeSizes
	source.frame = func(dst []byte, h chain.Height, p chain.Projection) []byte {
		dst, err := chain.Project(dst, messages[h], encoded[h].Transparent, p)
		if err != nil {
			panic(err)
		}
		return dst
	}
	for i := range encoded {
		b, h := &encoded[i], chain.Height(i)
		if err := encoder.Encode(b, h, chaintest.Mixed(h, prev, 7)); err != nil {
			t.Fatal(err)
		}
		var err error
		if sizes, err = sizes.Plus(b.Added); err != nil {
			t.Fatal(err)
		}
		messages[i] = chain.AppendFrame(nil, b.Shielded, sizes)[chain.FramePrefixLen:]
		source.blocks[i] = &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(source.frame(nil, h, everything)[chain.FramePrefixLen:], source.blocks[i]); err != nil {
			t.Fatal(err)
		}
		prev = b.ID.Hash
	}
	return source
}

// Every projection of real-format blocks, read by a client, is what the protocol's table says of the full block.
func TestEncodedBlocks(t *testing.T) {
	t.Parallel()
	source := encodedSource(t, 30)
	s := start(t, source)
	for mask := range 16 {
		var asked []walletrpc.PoolType
		pools := chain.Pools(0)
		for p := chain.Transparent; p <= chain.Ironwood; p++ {
			if mask&(1<<(p-1)) != 0 {
				asked, pools = append(asked, walletrpc.PoolType(p)), pools.With(p)
			}
		}
		if mask == 0 {
			pools = chain.ShieldedPools
		}
		reduced := pools.Without(chain.Transparent)
		if reduced == 0 {
			reduced = chain.ShieldedPools
		}
		req := &walletrpc.BlockRange{Start: byHeight(29), End: byHeight(0), PoolTypes: asked}
		got, err := s.blockRange(t, req)
		requireStatus(t, err, codes.OK, "")
		nullifiers, err := readRange(t, func() (grpc.ServerStreamingClient[walletrpc.CompactBlock], error) {
			return s.dial(t).GetBlockRangeNullifiers(t.Context(), req)
		})
		requireStatus(t, err, codes.OK, "")
		if len(got) != 30 || len(nullifiers) != 30 {
			t.Fatalf("got %d and %d blocks", len(got), len(nullifiers))
		}
		for i := range got {
			full := source.blocks[29-i]
			requireEqual(t, got[i], project(full, chain.Projection{Pools: pools}))
			requireEqual(t, nullifiers[i], project(full, chain.Projection{Pools: reduced, NullifiersOnly: true}))
		}
	}
	got, err := s.dial(t).GetBlock(t.Context(), byHeight(5))
	requireStatus(t, err, codes.OK, "")
	requireEqual(t, got, source.blocks[5])
	if len(got.Vtx) != 8 || got.ChainMetadata.GetIronwoodCommitmentTreeSize() == 0 {
		t.Errorf("the blocks of this test hold too little: %v", got)
	}
}

// The generated code reads from real blocks what an independent parser wrote down as the answers of GetBlock.
func TestVectors(t *testing.T) {
	t.Parallel()
	const dir = "../../../shared/vectors/blocks"
	files, err := filepath.Glob(filepath.Join(dir, "*.hex"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("there are no test vectors in %s", dir)
	}
	encoder := chain.NewEncoder(chain.EncoderOptions{})
	for _, file := range files {
		name := strings.TrimSuffix(file, ".hex")
		want := &walletrpc.CompactBlock{}
		text, err := os.ReadFile(name + ".compact.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(text, want); err != nil {
			t.Fatal(err)
		}
		text, err = os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		var b chain.Block
		if err := encoder.Encode(&b, chain.Height(want.Height), raw); err != nil {
			t.Fatal(err)
		}
		frame, err := chain.Project(nil, chain.AppendFrame(nil, b.Shielded, chain.TreeSizes{})[chain.FramePrefixLen:], b.Transparent, everything)
		if err != nil {
			t.Fatal(err)
		}
		got := &walletrpc.CompactBlock{}
		if err := proto.Unmarshal(frame[chain.FramePrefixLen:], got); err != nil {
			t.Fatal(err)
		}
		want.ChainMetadata = &walletrpc.ChainMetadata{}
		if !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", filepath.Base(name), got, want)
		}
	}
}
