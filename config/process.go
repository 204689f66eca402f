package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Process is a process that a plugin's block declares, and that the host starts when the plugin names it.
type Process struct {
	Plugin string // label of the plugin
	Name   string // the block's name and its label, for example "server.github"
	// Argv is the program, a name that is searched for in PATH or an absolute path, and its arguments.
	Argv    []string
	Cwd     string            // absolute; empty: the working folder
	Env     map[string]Secret // in addition to the environment of commands
	Sandbox ProcessSandbox
	Limits  Limits // of the process and its descendants; 0: not set
	Range   Range  // of the block in the last file that has it

	files []string // that contain a part of the block
}

// ProcessSandbox says what a declared process may do. The zero value allows reading only, without the network.
type ProcessSandbox struct {
	FullAccess    bool            // no sandbox
	Network       []hosts.Pattern // hosts that the proxy connects it to
	WritableRoots []string        // absolute
	ReadableRoots []string        // absolute; empty: not restricted
}

// process checks and converts what the host reads of a process.
func (b *PluginBlock) process(d bind.Process) (p Process, ds Diagnostics) {
	p = Process{Plugin: b.Label, Name: d.Name, Argv: d.Argv, Cwd: d.Cwd, Env: d.Env, Range: b.body.Locate(d.Path), files: d.Files}
	wrong := func(err error, next string, at ...contract.Step) {
		ds = append(ds, b.body.Diagnose([]contract.Diagnostic{{
			Severity: contract.SeverityError, Summary: fmt.Sprintf("invalid value for %q", at[1].Name), Detail: capital(err.Error()) + ".", Next: next,
			Path: append(append([]contract.Step(nil), d.Path...), at...),
		}})...)
	}
	texts := func(name string, convert func(string) error, next string) {
		list, _ := d.Sandbox[name].([]any)
		for i, e := range list {
			text, _ := e.(string)
			if err := convert(text); err != nil {
				wrong(err, next, contract.Name(schema.BlockSandbox), contract.Name(name), contract.Index(int64(i)))
			}
		}
	}
	p.Sandbox.FullAccess = d.Sandbox["mode"] == schema.SandboxFullAccess
	texts("network", func(text string) error {
		h, err := hosts.ParsePattern(text)
		p.Sandbox.Network = append(p.Sandbox.Network, h)
		return err
	}, `write a host, "*.example.com" or "example.com:443" for example`)
	texts("writable_roots", func(path string) error {
		if path == "" {
			return errors.New("a path is empty")
		}
		if filepath.Dir(path) == path {
			return fmt.Errorf("%s is the whole file system", path)
		}
		p.Sandbox.WritableRoots = append(p.Sandbox.WritableRoots, path)
		return nil
	}, "specify a folder")
	texts("readable_roots", func(path string) error {
		if path == "" {
			return errors.New("a path is empty")
		}
		p.Sandbox.ReadableRoots = append(p.Sandbox.ReadableRoots, path)
		return nil
	}, "specify a folder or a file")

	limit := func(name string, to *int64, convert func(string) (int64, error), next string) {
		if v := d.Limits[name]; v != nil {
			var err error
			if *to, err = convert(fmt.Sprint(v)); err != nil {
				wrong(err, next, contract.Name(schema.BlockLimits), contract.Name(name))
			}
		}
	}
	const size, whole = `write a size, "512MiB" for example`, "write a whole number that is not negative"
	count := func(text string) (int64, error) {
		n, err := json.Number(text).Int64()
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s is not a whole number that is not negative", text)
		}
		return n, nil
	}
	var seconds int64
	limit("memory", &p.Limits.MemoryBytes, parseSize, size)
	limit("file_size", &p.Limits.FileBytes, parseSize, size)
	limit("pids", &p.Limits.Pids, count, whole)
	limit("open_files", &p.Limits.OpenFiles, count, whole)
	limit("cpu_time", &seconds, func(text string) (int64, error) {
		t, err := parseDuration(text)
		return int64(math.Ceil(t.Seconds())), err
	}, `write a duration, "10m" for example`)
	p.Limits.CPUTime = time.Duration(seconds) * time.Second
	return p, ds
}
