package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gantry-agent/gantry/config/glob"
	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/config/internal/bind"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/reach"
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
	// Disabled reports that the block says `enabled = false`: the plugin does not start the process.
	Disabled bool

	files []string // that contain a part of the block
}

// Key identifies the process among those of all plugins.
func (p Process) Key() string { return p.Plugin + "." + p.Name }

// Pin is the digest of what the user accepts of a declared process.
type Pin struct {
	Content lock.Hash // of what the block says; of the values of variables, only those of [Process.Loading] are part of it
	Program lock.Hash // of the path and content of the program and of its scripts
	Scripts []Script  // the [Config.Scripts], as they were when Program was computed
}

// Script is a file that a process's arguments name for its program to run.
type Script struct {
	Path   string // absolute
	SHA256 string // hex
	Err    error  // why it can't be read; wraps [fs.ErrNotExist] if it does not exist
}

// String returns both digests.
func (p Pin) String() string { return string(p.Content) + " " + string(p.Program) }

// Pin returns what the user accepts of a process whose program is the file at path with this SHA-256.
func (c *Config) Pin(p Process, path, sha256Hex string) Pin {
	type folder struct{ path, sign string }
	var known []folder
	if c.InProject(p) { // the lock file is the same wherever the project is, and for each of its users
		known = append(known, folder{c.Project.Dir, "./"})
		if b, ok := c.Plugin(p.Plugin); ok && b.home != "" && filepath.Dir(b.home) != b.home {
			known = append(known, folder{b.home, "~/"})
		}
	}
	portable := func(paths ...string) []string {
		out := append([]string{}, paths...)
		for i, path := range paths {
			for _, f := range known {
				if rel, err := filepath.Rel(f.path, path); filepath.IsAbs(path) && err == nil && filepath.IsLocal(rel) {
					out[i] = f.sign + filepath.ToSlash(rel)
					break
				}
			}
		}
		return out
	}
	var hostTexts []string
	for _, h := range p.Sandbox.Network {
		hostTexts = append(hostTexts, h.String())
	}
	s, l := p.Sandbox, p.Limits
	form := []any{
		portable(p.Argv...), slices.Sorted(maps.Keys(p.Env)), portable(p.Cwd), s.FullAccess, hostTexts, portable(s.WritableRoots...), portable(s.ReadableRoots...),
		l.MemoryBytes, l.Pids, l.CPUTime, l.OpenFiles, l.FileBytes,
	}
	if len(s.DenyRead) > 0 { // consents from before there was such a setting remain valid
		form = append(form, portable(s.DenyRead...))
	}
	values := map[string]any{}
	for _, name := range p.Loading() {
		switch v := p.Env[name]; {
		case v.Command != nil:
			values[name] = []any{portable(v.Command.Argv...), portable(v.Command.Dir)}
		case v.Err == nil:
			values[name] = portable(v.Value)
		}
	}
	if len(values) > 0 { // as above
		form = append(form, values)
	}
	program := []any{portable(path), sha256Hex}
	pin := Pin{Content: pinHash(form)}
	for _, path := range c.Scripts(p) {
		sum, err := lock.HashFile(path)
		pin.Scripts = append(pin.Scripts, Script{Path: path, SHA256: sum.Hex(), Err: err})
		program = append(program, portable(path), sum, err != nil)
	}
	pin.Program = pinHash(program)
	return pin
}

// Loading returns the sorted names of the variables whose values can make programs run other code.
func (p Process) Loading() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.Env)), func(name string) bool { return !reach.Loads(name) })
}

// Scripts returns the absolute paths of the files that the arguments of a process name for its program to run, in a line of shell or after
// an option as well, and of those that the values of its [Process.Loading] name. Those that do not exist come last. The files that a script loads are not among them.
func (c *Config) Scripts(p Process) (out []string) {
	dir := cmp.Or(p.Cwd, c.Dir)
	runs := c.Reach(p.Argv, dir, nil)
	paths := runs.Paths()
	add := func(path string) {
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	for _, arg := range p.Argv[1:] {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if path = filepath.Clean(path); slices.Contains(paths, path) {
			add(path)
			continue
		}
		parts := strings.FieldsFunc(arg, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("=:,;|&<>()'\"`", r) })
		for _, f := range runs.Files {
			if slices.Contains(parts, f.Word) || filepath.IsAbs(f.Word) && strings.Contains(arg, f.Word) {
				add(f.Path)
			}
		}
	}
	for _, name := range p.Loading() {
		for part := range strings.FieldsFuncSeq(p.Env[name].Value, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("=:,;'\"", r) }) {
			path := filepath.Clean(part)
			if !filepath.IsAbs(part) {
				path = filepath.Join(dir, part)
			}
			if slices.Contains(c.Reach([]string{path}, dir, nil).Paths(), path) {
				add(path)
			}
		}
	}
	for _, path := range runs.Missing {
		add(path)
	}
	return out
}

func pinHash(form []any) lock.Hash {
	b, err := json.Marshal(form)
	if err != nil {
		panic(err) // cannot fail: the form consists of strings and numbers
	}
	sum := sha256.Sum256(b)
	return lock.Hash("d1:" + base64.StdEncoding.EncodeToString(sum[:]))
}

// InProject reports whether a part of the process's block is in a project's file.
func (c *Config) InProject(p Process) bool {
	return slices.ContainsFunc(c.Files, func(f File) bool { return f.Layer == LayerProject && slices.Contains(p.files, c.shown(f.Path)) })
}

// ProjectLock returns the lock file of the project as it was when it was trusted, and its path.
func (c *Config) ProjectLock() (*lock.File, string, Diagnostics) {
	path := filepath.Join(c.Project.Dir, projectDir, lock.FileName)
	f, ds := lock.Parse(c.Project.content[lock.FileName], c.shown(path))
	return f, path, ds
}

// ProcessSettings returns the schema of a block that declares a process, including what the host reads in it.
func ProcessSettings(n contract.ConfigNestedBlock) contract.ConfigBlock {
	return bind.WithProcess(n.Block)
}

// Declares reports whether the block may declare processes. It needs no manifest, so it may be wrong for settings of the same names.
func (b *PluginBlock) Declares() bool { return b.Kind == contract.KindTool && b.body.Declares() }

// ProcessSandbox says what a declared process may do. The zero value allows reading only, without the network.
type ProcessSandbox struct {
	FullAccess    bool            // no sandbox
	Network       []hosts.Pattern // hosts that the proxy connects it to
	WritableRoots []string        // absolute
	ReadableRoots []string        // absolute; empty: not restricted
	DenyRead      []string        // patterns in the syntax of [glob.Parse]; relative ones apply below the folder and each root
}

// process checks and converts what the host reads of a process.
func (b *PluginBlock) process(d bind.Process) (p Process, ds Diagnostics) {
	p = Process{Plugin: b.Label, Name: d.Name, Argv: d.Argv, Cwd: d.Cwd, Env: d.Env, Range: b.body.Locate(d.Path), Disabled: d.Disabled, files: d.Files}
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
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if upper := strings.ToUpper(name); !b.UnsafeEnv && (strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_")) {
			wrong(errors.New("it makes the program load code that nobody has accepted"), "write a program that sets it, and name that as the command", contract.Name("env"), contract.Name(name))
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

	texts("deny_read", func(text string) error {
		pattern := text
		if rest, ok := strings.CutPrefix(text, "~/"); ok {
			if b.home == "" {
				return errors.New("the home directory is not known")
			}
			pattern = glob.Below(b.home, rest)
		}
		p.Sandbox.DenyRead = append(p.Sandbox.DenyRead, pattern)
		return checkDenied(pattern, text)
	}, deniedExample)

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
