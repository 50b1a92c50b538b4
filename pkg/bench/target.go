package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	tipHash     string            // of the newest block at the beginning, in display order
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
	if tip.Height > math.MaxUint32 {
		t.close()
		return nil, fmt.Errorf("GetLatestBlock names height %d, which no chain has", tip.Height)
	}
	t.about.Server = info.Vendor + " " + info.Version
	t.about.Node = info.ZcashdSubversion
	t.about.Chain = info.ChainName
	t.about.Height = uint32(tip.Height)
	t.tipHash = displayHex(tip.Hash)
	t.firstHeight = max(info.SaplingActivationHeight, 1)
	return t, nil
}

// tipPatience is how long GetLatestBlock and GetBlock may name different blocks at the tip, which may move between the two questions.
const tipPatience = 5 * time.Second

// confirmedTip asks for the hash of the newest block, in display order. What a target names without having it is an error.
func (t *target) confirmedTip(ctx context.Context) (hash string, err error) {
	wallet := walletrpc.NewCompactTxStreamerClient(t.conn)
	var last error
	err = poll(ctx, tipPatience, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		var served blockRef
		served, last = servedTip(limited, wallet)
		hash = served.hash
		return last == nil, nil
	})
	if errors.Is(err, errPatience) {
		err = last
	}
	return hash, err
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
