//go:build race

package index

// Fewer of what takes ten times as long under the race detector.
const (
	standardSteps = 2000
	standardCuts  = 4
)
