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
