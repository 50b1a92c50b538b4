package lightwallet

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/indexrpc"
)

// tipService tells programs that run beside the server which tip wallets see.
type tipService struct {
	indexrpc.UnimplementedIndexedTipServiceServer
	source   chain.Source
	stopping context.Context // done when the server stops
}

// SubscribeIndexedTips sends the tip of the views, and each one that follows it. UNAVAILABLE when there is none to begin with; later it
// waits for the tip to be known again.
func (s *tipService) SubscribeIndexedTips(_ *indexrpc.SubscribeIndexedTipsRequest, stream grpc.ServerStreamingServer[indexrpc.IndexedTip]) error {
	ctx := stream.Context()
	if err := sendHeader(stream); err != nil {
		return err
	}
	sent, err := tipOf(ctx, s.source)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(tipInterval)
	defer ticker.Stop()
	for tip := sent; ; {
		if err := gone(stream.Send(&indexrpc.IndexedTip{Height: uint32(tip.Height), Hash: tip.Hash[:]})); err != nil {
			return err
		}
		for sent = tip; tip == sent; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-s.stopping.Done():
				return nil
			case <-ticker.C:
			}
			if now, err := tipOf(ctx, s.source); err == nil {
				tip = now
			}
		}
	}
}
