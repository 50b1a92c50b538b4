package lightwallet

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// sendHeader tells the client that the call has been understood: wallets give up when nothing comes for 10 s.
func sendHeader(stream grpc.ServerStream) error {
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return fmt.Errorf("send headers: %w: %w", errClientGone, err)
	}
	return nil
}
