package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zsidecar/zsidecar/internal/servertest"
)

// TestMemoryLimit runs zsidecar in a control group with a limit, which a mount of its own makes it believe: the garbage collector knows the
// limit. GOMEMLIMIT is stronger.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a control group")
	}
	const groupLimit = 512 << 20
	for _, tt := range []struct {
		name   string
		group  string            // what /proc/self/cgroup says
		files  map[string]string // in /sys/fs/cgroup
		env    string
		want   float64
		logged string
	}{
		{"version 2", "0::/system.slice/zsidecar.service\n",
			map[string]string{"system.slice/zsidecar.service/memory.max": fmt.Sprintln(groupLimit)}, "",
			groupLimit/10*9 - 64<<20, "file=/sys/fs/cgroup/system.slice/zsidecar.service/memory.max"},
		{"version 1", "4:memory:/docker/abc\n0::/\n", map[string]string{"memory/memory.limit_in_bytes": fmt.Sprintln(groupLimit)}, "",
			groupLimit/10*9 - 64<<20, "file=/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"GOMEMLIMIT", "0::/\n", map[string]string{"memory.max": fmt.Sprintln(groupLimit)}, "GOMEMLIMIT=300MiB", 300 << 20, "GOMEMLIMIT=300MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) {
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("cgroup", tt.group)
			for name, text := range tt.files {
				write(filepath.Join("fs", name), text)
			}
			c := newSidecar(t, "http://"+servertest.FreeAddr(t), "", passthrough)
			c.shell = fmt.Sprintf(`exec env %s unshare -m sh -e -c '
				mount --bind %[2]s/fs /sys/fs/cgroup
				mount --bind %[2]s/cgroup /proc/$$/cgroup
				exec "$0" "$@"' "$0" "$@"`, tt.env, dir)
			c.start()
			await(t, "the limit is logged", 5*time.Second, func() bool { return strings.Contains(c.proc.output.String(), tt.logged) })
			if got := c.metric("go_gc_gomemlimit_bytes"); got != tt.want {
				t.Errorf("the garbage collector has the limit %.0f, want %.0f", got, tt.want)
			}
			c.stop()
		})
	}
}
