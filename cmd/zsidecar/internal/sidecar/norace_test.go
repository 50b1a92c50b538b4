//go:build !race

package sidecar

func stalledDepths() []int { return []int{1, 20, 500} }
