//go:build race

package index

// standardSteps is fewer where each takes ten times as long.
const standardSteps = 2000
