package passthrough

import (
	"context"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TreeState implements chain.View.
func (v *zebraView) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, fmt.Errorf("tree state of block %d: %w", h, chain.ErrUnavailable)
}

// SubtreeRoots implements chain.View.
func (v *zebraView) SubtreeRoots(_ context.Context, pool chain.Pool, start, _ uint32) ([]chain.SubtreeRoot, error) {
	return nil, fmt.Errorf("%s subtree root %d: %w", pool, start, chain.ErrUnavailable)
}
