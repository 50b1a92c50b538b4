package chain_test

import (
	"testing"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/pkg/chain/chaintest"
)

// manySmall are enough small blocks that the mean is over both kinds.
func manySmall() [][]byte {
	blocks := make([][]byte, 256)
	for i := range blocks {
		blocks[i] = chaintest.Small(chain.Height(4_000_000+i), chain.Hash{1}, 1)
	}
	return blocks
}

func BenchmarkEncode(b *testing.B) {
	kinds := []struct {
		name   string
		blocks [][]byte
	}{
		{"small", manySmall()},
		{"dense-v4", [][]byte{chaintest.DenseV4(1_723_000, chain.Hash{1}, 1)}},
		{"dense-v6", [][]byte{chaintest.DenseV6(3_600_000, chain.Hash{1}, 1)}},
	}
	for _, kind := range kinds {
		b.Run(kind.name, func(b *testing.B) {
			e := chain.NewEncoder(chain.EncoderOptions{})
			var block chain.Block
			size := 0
			for _, raw := range kind.blocks {
				size += len(raw)
			}
			b.SetBytes(int64(size / len(kind.blocks)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := e.Encode(&block, 4_000_000, kind.blocks[i%len(kind.blocks)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

func BenchmarkProject(b *testing.B) {
	kinds := []struct {
		name string
		p    chain.Projection
	}{
		{"default", chain.DefaultProjection},
		{"shielded-subset", chain.Projection{Pools: chain.ShieldedPools.Without(chain.Sapling)}},
		{"nullifiers", chain.Projection{Pools: chain.ShieldedPools, NullifiersOnly: true}},
		{"transparent", chain.Projection{Pools: chain.AllPools}},
		{"all", chain.Projection{Pools: chain.AllPools, KeepEmpty: true}},
	}
	blocks := map[string][][]byte{
		"small": manySmall(), "mixed": {chaintest.Mixed(3_600_000, chain.Hash{1}, 1)}, "dense-v4": {chaintest.DenseV4(1_723_000, chain.Hash{1}, 1)},
	}
	for _, kind := range kinds {
		for _, size := range []string{"small", "mixed", "dense-v4"} {
			b.Run(kind.name+"/"+size, func(b *testing.B) {
				benchmarkProject(b, kind.p, blocks[size])
			})
		}
	}
}

func benchmarkProject(b *testing.B, p chain.Projection, raw [][]byte) {
	messages, columns := make([][]byte, len(raw)), make([][]byte, len(raw))
	e := chain.NewEncoder(chain.EncoderOptions{})
	size := 0
	for i := range raw {
		var block chain.Block
		if err := e.Encode(&block, 4_000_000, raw[i]); err != nil {
			b.Fatal(err)
		}
		frame := chain.AppendFrame(nil, block.Shielded, chain.TreeSizes{Sapling: 1, Orchard: 2, Ironwood: 3})
		messages[i], columns[i] = frame[chain.FramePrefixLen:], block.Transparent
		size += len(messages[i])
	}
	b.SetBytes(int64(size / len(raw)))
	b.ReportAllocs()
	var dst []byte
	for i := 0; b.Loop(); i++ {
		var err error
		if dst, err = chain.Project(dst[:0], messages[i%len(raw)], columns[i%len(raw)], p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSummarize(b *testing.B) {
	var block chain.Block
	if err := chain.NewEncoder(chain.EncoderOptions{}).Encode(&block, 4_000_000, chaintest.Small(4_000_000, chain.Hash{1}, 1)); err != nil {
		b.Fatal(err)
	}
	message := chain.AppendFrame(nil, block.Shielded, chain.TreeSizes{Sapling: 1})[chain.FramePrefixLen:]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chain.Summarize(message); err != nil {
			b.Fatal(err)
		}
	}
}
