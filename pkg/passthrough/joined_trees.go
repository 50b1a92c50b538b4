package passthrough

import (
	"context"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// TreeState implements chain.View.
func (v *joinedView) TreeState(ctx context.Context, h chain.Height) (chain.TreeState, error) {
	if v.zebra == nil {
		return chain.TreeState{}, v.zebraErr
	}
	return v.zebra.TreeState(ctx, h)
}

// SubtreeRoots implements chain.View.
func (v *joinedView) SubtreeRoots(ctx context.Context, pool chain.Pool, start, limit uint32) ([]chain.SubtreeRoot, error) {
	if v.zebra == nil {
		return nil, v.zebraErr
	}
	return v.zebra.SubtreeRoots(ctx, pool, start, limit)
}
