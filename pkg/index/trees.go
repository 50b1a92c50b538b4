package index

import (
	"context"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TreeState implements chain.View with what was kept; ErrUnavailable says that others have to be asked.
func (v *view) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, fmt.Errorf("no tree state of block %d is kept: %w", h, chain.ErrUnavailable)
}

// SubtreeRoots implements chain.View with what was kept; ErrUnavailable says that others have to be asked.
func (v *view) SubtreeRoots(_ context.Context, pool chain.Pool, start, _ uint32) ([]chain.SubtreeRoot, error) {
	return nil, fmt.Errorf("no %s subtree root %d is kept: %w", pool, start, chain.ErrUnavailable)
}
