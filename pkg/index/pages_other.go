//go:build !linux

package index

// emptyPage makes a page of so many bytes, all zero.
func emptyPage(bytes int) *hashPage { return &hashPage{make([]byte, bytes)} }
