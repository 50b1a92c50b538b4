//go:build !race

package index

const (
	standardSteps = 10_000 // of the model test
	standardCuts  = 25     // of each kind of the power test
)
