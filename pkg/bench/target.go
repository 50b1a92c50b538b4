package bench

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// answerTime is how long a target may take to say who it is.
const answerTime = 10 * time.Second

// maxMessage is the largest message that is taken: an address may have very many outputs.
const maxMessage = 256 << 20

// target is a server that is measured.
type target struct {
	options TargetOptions
	about   Target
	conn    *grpc.ClientConn // for what is asked outside of rounds, and of the client that decodes
	state   any              // what the case that is measured keeps from round to round
	// firstHeight is where the blocks begin that every server has: the activation of Sapling, and above genesis.
	firstHeight uint64
	known       map[string]*known // answers by the key of their questions
}

// newTarget connects and asks the server about itself.
func newTarget(ctx context.Context, o TargetOptions) (*target, error) {
	conn, err := dial(o)
	if err != nil {
		return nil, err
	}
	t := &target{options: o, conn: conn, known: map[string]*known{}, about: Target{Name: o.Name, Address: o.Address, TLS: o.TLS != nil}}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	wallet := walletrpc.NewCompactTxStreamerClient(conn)
	info, err := wallet.GetLightdInfo(ctx, &walletrpc.Empty{})
	if err != nil {
		t.close()
		return nil, err
	}
	tip, err := wallet.GetLatestBlock(ctx, &walletrpc.ChainSpec{})
	if err != nil {
		t.close()
		return nil, err
	}
	t.about.Server = info.Vendor + " " + info.Version
	t.about.Node = info.ZcashdSubversion
	t.about.Chain = info.ChainName
	t.about.Height = uint32(tip.Height)
	t.firstHeight = max(info.SaplingActivationHeight, 1)
	return t, nil
}

// tip asks for the newest block, as one text.
func (t *target) tip(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	id, err := walletrpc.NewCompactTxStreamerClient(t.conn).GetLatestBlock(ctx, &walletrpc.ChainSpec{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %x", id.Height, id.Hash), nil
}

func (t *target) close() { t.conn.Close() }

// dial makes a connection of grpc-go, which connects at its first call.
func dial(o TargetOptions) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if o.TLS != nil {
		security = credentials.NewTLS(o.TLS)
	}
	return grpc.NewClient("passthrough:///"+o.Address, grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
}
