// Package limit enforces limits on the resources of process trees.
//
// It owns: what can be limited, the means for each limit (control groups, resource limits of single processes, and polling the process
// table where neither applies to the tree), and which limit has ended a tree. It must not know: how a process is started or killed.
//
// Start with [Set] and [Enforcer.Prepare].
package limit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch/control"
)

// Names of the limits that end a tree.
const (
	Memory = "memory"
	PIDs   = "pids"
	Time   = "time"
	File   = "file_size"
)

// Set is the limits of a process tree. A zero field is no limit: the process inherits the host's. A tree that reaches a limit on memory,
// processes or processor time is ended. The kernel counts memory and processes of the tree where a control group can be created, of
// version 2 or else of version 1; elsewhere the host polls the process table five times a second.
type Set struct {
	// MemoryBytes limits the tree's memory, without swap. Without a control group it also limits each process's writable
	// private memory (RLIMIT_DATA: unlike RLIMIT_AS it does not count address space that is only reserved, of which some
	// runtimes take many gigabytes).
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// AddressSpaceBytes limits each process's address space (RLIMIT_AS).
	AddressSpaceBytes int64 `json:"addressSpaceBytes,omitempty"`
	// MaxPids limits the tree's processes and threads. Without a control group RLIMIT_NPROC does so as well in the sandbox of an
	// ordinary user; elsewhere that would count all of the user's processes, and it does not apply to root.
	MaxPids int64 `json:"maxPids,omitempty"`
	// CPUSeconds limits each process's processor time (SIGXCPU, then SIGKILL after two more seconds of it), and the tree's,
	// which is polled once a second and is ended after two more seconds.
	CPUSeconds int64 `json:"cpuSeconds,omitempty"`
	// OpenFiles limits each process's descriptors.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// FileBytes limits the size of each file that is written (RLIMIT_FSIZE): SIGXFSZ, or an error where that is ignored.
	FileBytes int64 `json:"fileBytes,omitempty"`
	// OutputBytes limits the output that Attach passes on. The rest is read and dropped, so that the process doesn't block.
	OutputBytes int64 `json:"outputBytes,omitempty"`
	// NoCore: a crash leaves no core file.
	NoCore bool `json:"noCore,omitempty"`
}

// Tightened returns the stricter limits of both sets.
func (s Set) Tightened(by Set) Set {
	for _, f := range []struct {
		limit *int64
		other int64
	}{
		{&s.MemoryBytes, by.MemoryBytes}, {&s.AddressSpaceBytes, by.AddressSpaceBytes}, {&s.MaxPids, by.MaxPids},
		{&s.CPUSeconds, by.CPUSeconds}, {&s.OpenFiles, by.OpenFiles}, {&s.FileBytes, by.FileBytes}, {&s.OutputBytes, by.OutputBytes},
	} {
		if *f.limit == 0 || f.other != 0 && f.other < *f.limit {
			*f.limit = f.other
		}
	}
	s.NoCore = s.NoCore || by.NoCore
	return s
}

// OfTree reports whether resources of the whole tree are counted.
func (s Set) OfTree() bool { return s.MemoryBytes > 0 || s.MaxPids > 0 || s.CPUSeconds > 0 }

// Check returns an error if a limit is negative.
func (s Set) Check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"memory", s.MemoryBytes}, {"address space", s.AddressSpaceBytes}, {"pids", s.MaxPids}, {"cpu", s.CPUSeconds},
		{"open files", s.OpenFiles}, {"file size", s.FileBytes}, {"output", s.OutputBytes},
	} {
		if f.value < 0 {
			return fmt.Errorf("the limit on %s is %d; it must not be negative", f.name, f.value)
		}
	}
	return nil
}

// Setting describes a limit as the user has set it: the resource, the value, and the name of the setting.
func (s Set) Setting(limit string) (what, value, name string) {
	switch limit {
	case Memory:
		return "memory", Bytes(s.MemoryBytes), "memory"
	case PIDs:
		return "processes", strconv.FormatInt(s.MaxPids, 10), "pids"
	case Time:
		return "processor time", (time.Duration(s.CPUSeconds) * time.Second).String(), "cpu_time"
	case File:
		return "the size of a file", Bytes(s.FileBytes), "file_size"
	}
	return limit, "", limit
}

// Bytes formats a size as the configuration does.
func Bytes(n int64) string {
	for _, u := range [...]struct {
		unit  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.unit
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Usage is how the first process of a tree ended.
type Usage struct {
	Code   int           // the exit status; 128+n after signal n
	Signal int           // 0: it exited
	CPU    time.Duration // user and system time
}

// Means says what enforces limits on this machine; an empty field: nothing does.
type Means struct {
	Memory string `json:"memory,omitempty"`
	Pids   string `json:"pids,omitempty"`
}

// Order is what gantry-launch has to do for the limits of a tree.
type Order struct {
	Rlimits []control.Rlimit // of each process
	Cgroup  string           // the control group of version 2; empty: none
	Groups  []string         // those of version 1
}
