// Package lint holds the rules of the house that no ready-made linter knows, as tests: which room may import what, where programs may
// end and start, and how long a file or a function may be. It has no code of its own.
package lint
