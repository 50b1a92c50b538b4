package lightwallet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// fakeInfo is a node whose upgrades straddle the tip of the tests, one of them with a name nobody has heard of.
func fakeInfo() chain.NodeInfo {
	return chain.NodeInfo{
		Chain: "test", Tip: chain.BlockID{Height: tip}, EstimatedHeight: 1000, BranchID: 0x37a5165b,
		Upgrades: []chain.Upgrade{
			{BranchID: 0x5ba81b19, Name: "Overwinter", Height: 2},
			{BranchID: 0x76b809bb, Name: "Sapling", Height: 5},
			{BranchID: 0x37a5165b, Name: "NU7", Height: 30},
			{BranchID: 0x0badcafe, Name: "Canto", Height: 60, Pending: true},
			{BranchID: 0x0badf00d, Name: "Duo", Height: 50, Pending: true},
		},
		Build: "v7.0.0", Subversion: "/Zebra:7.0.0/",
	}
}

func TestGetLightdInfo(t *testing.T) {
	t.Parallel()
	full := &walletrpc.LightdInfo{
		Version: "1.2.3", Vendor: "zsidecar", TaddrSupport: true, ChainName: "test", SaplingActivationHeight: 5, ConsensusBranchId: "37a5165b",
		BlockHeight: tip, GitCommit: "abc", Branch: "main", BuildDate: "2026-12-01", BuildUser: "me", EstimatedHeight: 1000,
		ZcashdBuild: "v7.0.0", ZcashdSubversion: "/Zebra:7.0.0/", DonationAddress: "u1zsidecar", UpgradeName: "Duo", UpgradeHeight: 50,
		LightwalletProtocolVersion: "v0.5.0",
	}
	for _, c := range []struct {
		name   string
		node   func(*chain.NodeInfo)
		option func(*Options)
		want   func(*walletrpc.LightdInfo)
	}{
		{"everything", nil, nil, nil},
		{"chain name of the operator", nil, func(o *Options) { o.ChainName = "regtest" }, func(w *walletrpc.LightdInfo) { w.ChainName = "regtest" }},
		{"no donations", nil, func(o *Options) { o.DonationAddress = "" }, func(w *walletrpc.LightdInfo) { w.DonationAddress = "" }},
		{"estimate behind our tip", func(n *chain.NodeInfo) { n.EstimatedHeight = 12 }, nil, func(w *walletrpc.LightdInfo) { w.EstimatedHeight = tip }},
		{"branch id with leading zeros", func(n *chain.NodeInfo) { n.BranchID = 0xab }, nil, func(w *walletrpc.LightdInfo) { w.ConsensusBranchId = "000000ab" }},
		{"node ahead of us, beyond an upgrade", func(n *chain.NodeInfo) { n.Tip.Height, n.BranchID = 50, 0x0badf00d }, nil, nil},
		{"nothing pending", func(n *chain.NodeInfo) { n.Upgrades = n.Upgrades[:3] }, nil, func(w *walletrpc.LightdInfo) { w.UpgradeName, w.UpgradeHeight = "", 0 }},
		{"before the first upgrade", func(n *chain.NodeInfo) {
			n.BranchID = 0
			n.Upgrades = []chain.Upgrade{{BranchID: 0x5ba81b19, Name: "Overwinter", Height: 41, Pending: true}}
		}, nil, func(w *walletrpc.LightdInfo) {
			w.ConsensusBranchId, w.SaplingActivationHeight, w.UpgradeName, w.UpgradeHeight = "00000000", 0, "Overwinter", 41
		}},
		{"no upgrades listed", func(n *chain.NodeInfo) { n.Upgrades = nil }, nil, func(w *walletrpc.LightdInfo) {
			w.SaplingActivationHeight, w.UpgradeName, w.UpgradeHeight = 0, "", 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)}, func(o *Options, _ *bool) {
				o.Version, o.GitCommit, o.GitBranch, o.BuildDate, o.BuildUser = "1.2.3", "abc", "main", "2026-12-01", "me"
				o.DonationAddress = "u1zsidecar"
				if c.option != nil {
					c.option(o)
				}
			})
			info := fakeInfo()
			if c.node != nil {
				c.node(&info)
			}
			s.node.answer.Store(&info)
			got, err := s.dial(t).GetLightdInfo(t.Context(), &walletrpc.Empty{})
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(full)
			if c.want != nil {
				c.want(want)
			}
			requireEqual(t, got, want)
		})
	}
}

func TestLightdInfoUnavailable(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)})
	_, err := s.dial(t).GetLightdInfo(t.Context(), &walletrpc.Empty{})
	requireStatus(t, err, codes.Unavailable, textUnavailable)

	s = start(t, &fakeSource{blocks: fakeBlocks(tip + 1)})
	info := fakeInfo()
	info.BranchID = 0 // after the first upgrade: the node does not know yet
	s.node.answer.Store(&info)
	_, err = s.dial(t).GetLightdInfo(t.Context(), &walletrpc.Empty{})
	requireStatus(t, err, codes.Unavailable, textUnavailable)
}

// The node is asked once a second at most, by one call at a time, and its last answer outlives it.
func TestNodeInfoCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		cache := newNodeInfo(node)
		asked := func(want int64) {
			t.Helper()
			if got := node.asked.Load(); got != want {
				t.Fatalf("the node was asked %d times, want %d", got, want)
			}
		}
		get := func(wantErr bool) {
			t.Helper()
			if info, err := cache.get(t.Context()); (err != nil) != wantErr || (err == nil && info.Chain != "test") {
				t.Fatalf("%+v, %v", info, err)
			}
		}
		get(true)
		get(true)
		asked(1) // a failure is kept as long
		info := fakeInfo()
		node.answer.Store(&info)
		time.Sleep(nodeInfoFresh)
		get(false)
		time.Sleep(nodeInfoFresh - 1)
		get(false)
		asked(2)
		time.Sleep(time.Nanosecond)
		get(false)
		asked(3)

		node.answer.Store(nil) // away
		time.Sleep(time.Hour)
		get(false)
		get(false)
		asked(4)

		node.wait = func(ctx context.Context) error { // hanging
			<-ctx.Done()
			return fmt.Errorf("zebra: %w", ctx.Err())
		}
		time.Sleep(nodeInfoFresh)
		began := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { get(false) })
		}
		wg.Wait()
		asked(5)
		if d := time.Since(began); d != nodeInfoPatience {
			t.Fatalf("waited %s", d)
		}
	})
}

// A caller who leaves while it asks says nothing of the node; the next one asks again.
func TestNodeInfoCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		info := fakeInfo()
		node.answer.Store(&info)
		node.wait = func(ctx context.Context) error {
			select {
			case <-time.After(nodeInfoLimit / 2):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		cache := newNodeInfo(node)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := cache.get(ctx); err != context.DeadlineExceeded {
				t.Errorf("the caller who left got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if info, err := cache.get(t.Context()); err != nil || info.Chain != "test" {
				t.Errorf("the caller who stayed got %+v, %v", info, err)
			}
		})
		waiting, leave := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := cache.get(waiting); err != context.Canceled {
				t.Errorf("the caller who left the queue got %v", err)
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
		if n := node.asked.Load(); n != 2 {
			t.Errorf("the node was asked %d times", n)
		}
	})
}

// A node that goes away before any wallet has asked leaves its last word with AskNode.
func TestAskNodeAheadOfWallets(t *testing.T) {
	t.Parallel()
	s := start(t, &fakeSource{blocks: fakeBlocks(tip + 1)})
	info := fakeInfo()
	s.node.answer.Store(&info)
	if got, err := s.AskNode(t.Context()); err != nil || got.Build != info.Build {
		t.Fatal(got, err)
	}
	s.node.answer.Store(nil)
	time.Sleep(nodeInfoFresh + 10*time.Millisecond)
	got, err := s.dial(t).GetLightdInfo(t.Context(), &walletrpc.Empty{})
	if err != nil || got.BlockHeight != tip || got.ZcashdBuild != info.Build {
		t.Errorf("GetLightdInfo after the node went away: %v, %v", got, err)
	}
}

// What an earlier run has heard counts until the node answers, and never instead of what it has answered.
func TestRemember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{}
		cache := newNodeInfo(node)
		requireBuild := func(want string) {
			t.Helper()
			if info, err := cache.get(t.Context()); err != nil || info.Build != want {
				t.Errorf("got %+v, %v; want build %s", info, err, want)
			}
		}
		if _, err := cache.get(t.Context()); err == nil {
			t.Fatal("the node is away")
		}
		older := chain.NodeInfo{Build: "older"}
		(&Server{node: cache}).Remember(older)
		requireBuild("older") // at once, though the failure is fresh
		time.Sleep(nodeInfoFresh)
		requireBuild("older")
		info := fakeInfo()
		node.answer.Store(&info)
		time.Sleep(nodeInfoFresh)
		requireBuild(info.Build)
		(&Server{node: cache}).Remember(older)
		requireBuild(info.Build)
		node.answer.Store(nil)
		time.Sleep(time.Hour)
		requireBuild(info.Build)
	})
}

// A node that hangs is waited for once, however often those who ask it leave, and all get the same answer.
func TestNodeInfoHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{wait: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		cache := newNodeInfo(node)
		began := time.Now()
		var wg sync.WaitGroup
		impatient, leave := context.WithTimeout(t.Context(), nodeInfoLimit-time.Second)
		defer leave()
		wg.Go(func() { _, _ = cache.get(impatient) })
		synctest.Wait() // it asks
		for range 20 {
			wg.Go(func() {
				_, err := cache.get(t.Context())
				if d := time.Since(began); !errors.Is(err, chain.ErrUnavailable) || d != nodeInfoLimit {
					t.Errorf("%v after %s", err, d)
				}
			})
		}
		wg.Wait()
	})
}
