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

// Limits only get stricter.
func TestTightened(t *testing.T) {
	t.Parallel()
	wide := limit.Set{MemoryBytes: 9, AddressSpaceBytes: 9, MaxPids: 9, CPUSeconds: 9, OpenFiles: 9, FileBytes: 9, OutputBytes: 9}
	tight := limit.Set{MemoryBytes: 1, AddressSpaceBytes: 2, MaxPids: 3, CPUSeconds: 4, OpenFiles: 5, FileBytes: 6, OutputBytes: 7, NoCore: true}
	for _, tc := range [][3]limit.Set{
		{{}, {}, {}}, {wide, {}, wide}, {{}, tight, tight}, {tight, {}, tight}, {wide, tight, tight}, {tight, wide, tight},
	} {
		if got := tc[0].Tightened(tc[1]); got != tc[2] {
			t.Errorf("%+v by %+v: %+v", tc[0], tc[1], got)
		}
	}
	if got, want := (limit.Set{MemoryBytes: 1, FileBytes: 9}).Tightened(limit.Set{MemoryBytes: 9, FileBytes: 1}), (limit.Set{MemoryBytes: 1, FileBytes: 1}); got != want {
		t.Errorf("mixed: %+v", got)
	}
}
