// Package memlimit finds out how much memory the process may use, from its control group, and how much of that the Go runtime may.
package memlimit

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	// mapped is what the runtime does not count and the control group does: the index's files that are mapped and written to (three tables
	// of 16 MiB at most), and some of what is read.
	mapped = 64 << 20

	// unlimited is where version 1 begins to mean that there is no limit.
	unlimited = 1 << 60
)

// OfCgroup returns the least memory limit of the process's control group and of those around it, in bytes, and the file that says so. 0
// is none. root is the file system from /.
//
// Version 2 has memory.max, and memory.high above which the kernel slows the process down; version 1 has memory.limit_in_bytes. In a
// container the group's own path may be the host's, of which only the end is mounted: folders that are not there are passed over.
func OfCgroup(root fs.FS) (limit int64, file string, err error) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, "", fmt.Errorf("find the control group: %w", err)
	}
	base, dir, names := group(string(text))
	if base == "" {
		return 0, "", nil
	}
	for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
		for _, name := range names {
			name = path.Join(base, dir, name)
			if n := read(root, name); n > 0 && (limit == 0 || n < limit) {
				limit, file = n, "/"+name
			}
		}
		if dir == "/" {
			return limit, file, nil
		}
	}
}

// group takes /proc/self/cgroup apart: where the memory controller is mounted, the group's path in it, and the files with its limits.
// Version 1 rules where both are there. Without a memory controller base is "".
func group(text string) (base, dir string, names []string) {
	for line := range strings.Lines(text) {
		// hierarchy-ID:controller-list:cgroup-path, see cgroups(7)
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			if controller == "memory" {
				return "sys/fs/cgroup/memory", parts[2], []string{"memory.limit_in_bytes"}
			}
		}
		if parts[0] == "0" && parts[1] == "" {
			base, dir, names = "sys/fs/cgroup", parts[2], []string{"memory.max", "memory.high"}
		}
	}
	return base, dir, names
}

// read returns the number in a file, 0 when there is no such file or no limit in it.
func read(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= unlimited { // "max"
		return 0
	}
	return n
}

// ForGo is the part of a limit, in bytes, that is left to the Go runtime: nine tenths without what is mapped, but not less than half. Below
// that the garbage collector would do nothing but run.
func ForGo(limit int64) int64 { return max(limit/10*9-mapped, limit/2) }
