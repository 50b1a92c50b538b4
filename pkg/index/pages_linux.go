package index

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// emptyPage makes a page of so many bytes, all zero, outside Go's heap: there it would cost twice as much, since the collector waits until
// the heap has doubled. The memory is given back once nobody holds the page.
func emptyPage(bytes int) *hashPage {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return &hashPage{make([]byte, bytes)}
	}
	p := &hashPage{memory}
	runtime.AddCleanup(p, func(memory []byte) {
		_ = unix.Munmap(memory) // it fails for what is no mapping only
	}, memory)
	return p
}
