//go:build !race

package index

const standardSteps = 10_000
