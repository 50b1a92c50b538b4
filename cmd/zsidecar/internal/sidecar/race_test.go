//go:build race

package sidecar

// stalledDepths are the depths of the reorgs under readers that stall: one is enough where everything takes ten times as long.
func stalledDepths() []int { return []int{20} }
