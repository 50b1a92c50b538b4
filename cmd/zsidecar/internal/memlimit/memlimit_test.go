package memlimit

import (
	"testing"
	"testing/fstest"
)

func TestOfCgroup(t *testing.T) {
	t.Parallel()
	const v1 = "9223372036854771712\n" // none
	tests := []struct {
		name  string
		files map[string]string
		want  int64
		file  string
	}{
		{"version 2, in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n", "sys/fs/cgroup/memory.high": "max\n",
		}, 512 << 20, "/sys/fs/cgroup/memory.max"},
		{"version 2, the lower of the two", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n", "sys/fs/cgroup/memory.high": "268435456\n",
		}, 256 << 20, "/sys/fs/cgroup/memory.high"},
		{"version 2, of a service", map[string]string{
			"proc/self/cgroup": "0::/system.slice/zsidecar.service\n",
			"sys/fs/cgroup/system.slice/zsidecar.service/memory.max": "1073741824\n", "sys/fs/cgroup/system.slice/memory.max": "max\n",
		}, 1 << 30, "/sys/fs/cgroup/system.slice/zsidecar.service/memory.max"},
		{"version 2, of the slice around it", map[string]string{
			"proc/self/cgroup": "0::/system.slice/zsidecar.service\n",
			"sys/fs/cgroup/system.slice/zsidecar.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "1073741824\n",
		}, 1 << 30, "/sys/fs/cgroup/system.slice/memory.max"},
		{"version 2, the host's path in a container", map[string]string{
			"proc/self/cgroup": "0::/../../kubepods/pod1/abc\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1 << 30, "/sys/fs/cgroup/memory.max"},
		{"version 2, none", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0, ""},
		{"version 2, the root of a host", map[string]string{"proc/self/cgroup": "0::/\n"}, 0, ""},
		{"version 1, in a container", map[string]string{
			"proc/self/cgroup":                           "12:pids:/docker/abc\n4:memory:/docker/abc\n0::/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory.max": "1\n",
		}, 512 << 20, "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"version 1, controllers together", map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": v1,
		}, 512 << 20, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes"},
		{"version 1, none", map[string]string{
			"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": v1,
		}, 0, ""},
		{"no memory controller", map[string]string{"proc/self/cgroup": "1:name=systemd:/\n"}, 0, ""},
		{"nonsense", map[string]string{"proc/self/cgroup": "0::/\nx\n::\n", "sys/fs/cgroup/memory.max": "-5\n", "sys/fs/cgroup/memory.high": ""}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, text := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, file, err := OfCgroup(root)
			if err != nil || got != tt.want || file != tt.file {
				t.Errorf("got %d from %q, %v; want %d from %q", got, file, err, tt.want, tt.file)
			}
		})
	}
	if _, _, err := OfCgroup(fstest.MapFS{}); err == nil {
		t.Error("no error without /proc")
	}
}

func TestForGo(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{
		100 << 20: 50 << 20,
		160 << 20: 80 << 20,
		640 << 20: 512 << 20,
		10 << 30:  9<<30 - 64<<20,
	} {
		if got := ForGo(limit); got != want {
			t.Errorf("of %d MiB: %d MiB, want %d MiB", limit>>20, got>>20, want>>20)
		}
	}
}
