package passthrough

import (
	"context"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func (v *fakeIndexView) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, fmt.Errorf("fake: tree state %d: %w", h, chain.ErrUnavailable)
}

func (v *fakeIndexView) SubtreeRoots(context.Context, chain.Pool, uint32, uint32) ([]chain.SubtreeRoot, error) {
	return nil, fmt.Errorf("fake: %w", chain.ErrUnavailable)
}
