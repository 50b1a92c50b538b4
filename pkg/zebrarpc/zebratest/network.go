package zebratest

import "github.com/zsidecar/zsidecar/pkg/chain"

// Network says which network a Chain claims to be.
type Network uint8

// The networks. A regtest node calls its chain "test", as Zebra's does.
const (
	Main Network = iota
	Test
	Regtest
)

// name is getblockchaininfo's "chain".
func (n Network) name() string {
	if n == Main {
		return "main"
	}
	return "test"
}

// DefaultUpgrades returns every upgrade that zebrad 7.0.0 lists, all of them early: up to Canopy at height 1, the others at height 2.
func DefaultUpgrades() []chain.Upgrade {
	return []chain.Upgrade{
		{Name: "Overwinter", BranchID: 0x5ba81b19, Height: 1},
		{Name: "Sapling", BranchID: 0x76b809bb, Height: 1},
		{Name: "Blossom", BranchID: 0x2bb40e60, Height: 1},
		{Name: "Heartwood", BranchID: 0xf5b9230b, Height: 1},
		{Name: "Canopy", BranchID: 0xe9ff75a6, Height: 1},
		{Name: "NU5", BranchID: 0xc2d6d0b4, Height: 2},
		{Name: "NU6", BranchID: 0xc8e71055, Height: 2},
		{Name: "NU6.1", BranchID: 0x4dec4df0, Height: 2},
		{Name: "NU6.2", BranchID: 0x5437f330, Height: 2},
		{Name: "NU6.3", BranchID: 0x37a5165b, Height: 2},
		{Name: "NU7", BranchID: 0x77190ad9, Height: 2},
	}
}

// branchAt returns the consensus branch id that is in force at height h, 0 before the first upgrade.
func branchAt(upgrades []chain.Upgrade, h chain.Height) uint32 {
	var id uint32
	for _, u := range upgrades {
		if u.Height <= h {
			id = u.BranchID
		}
	}
	return id
}

// activation returns the height of the named upgrade; false when the network does not have it.
func activation(upgrades []chain.Upgrade, name string) (chain.Height, bool) {
	for _, u := range upgrades {
		if u.Name == name {
			return u.Height, true
		}
	}
	return 0, false
}

// reached tells whether the named upgrade is in force at height h.
func reached(upgrades []chain.Upgrade, name string, h chain.Height) bool {
	at, ok := activation(upgrades, name)
	return ok && at <= h
}
