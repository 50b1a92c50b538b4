package bench

import "time"

// processUse is what a process has used and has now.
type processUse struct {
	cpu              time.Duration // of all its threads since its start, kernel time included
	rssAnon, rssFile uint64        // bytes: memory of its own, and pages of mapped files, which are the kernel's to drop
	written          uint64        // bytes that it caused to be sent to the disk since its start
}
