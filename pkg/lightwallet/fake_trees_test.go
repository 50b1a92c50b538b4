package lightwallet

import (
	"context"
	"fmt"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

func (v *fakeView) TreeState(_ context.Context, h chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, fmt.Errorf("fake: tree state %d: %w", h, chain.ErrUnavailable)
}

func (v *fakeView) SubtreeRoots(context.Context, chain.Pool, uint32, uint32) ([]chain.SubtreeRoot, error) {
	return nil, fmt.Errorf("fake: %w", chain.ErrUnavailable)
}

func (s *benchSource) TreeState(context.Context, chain.Height) (chain.TreeState, error) {
	return chain.TreeState{}, chain.ErrUnavailable
}

func (s *benchSource) SubtreeRoots(context.Context, chain.Pool, uint32, uint32) ([]chain.SubtreeRoot, error) {
	return nil, chain.ErrUnavailable
}
