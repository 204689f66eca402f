package limit_test

import (
	"testing"

	"github.com/gantry-agent/gantry/host/internal/launch/limit"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	l := limit.Set{MemoryBytes: 1 << 30, MaxPids: 7, CPUSeconds: 90, FileBytes: 1000}
	for name, want := range map[string][3]string{
		limit.Memory: {"memory", "1GiB", "memory"},
		limit.PIDs:   {"processes", "7", "pids"},
		limit.Time:   {"processor time", "1m30s", "cpu_time"},
		limit.File:   {"the size of a file", "1000B", "file_size"},
	} {
		if what, value, setting := l.Setting(name); [3]string{what, value, setting} != want {
			t.Errorf("%s: %q %q %q, want %q", name, what, value, setting, want)
		}
	}
}
