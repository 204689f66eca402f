package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/internal/syntax"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/trust"
)

const (
	fileName    = "gantry.hcl"
	projectDir  = ".gantry"
	systemFile  = "/etc/gantry/gantry.hcl"
	builtinName = "built-in"
	// strangerName is the name of the layer that applies in a project that is not trusted.
	strangerName = "built-in (project not trusted)"
)

// fileNames are the file names of a layer, in order of increasing precedence.
var fileNames = [...]string{fileName, fileName + syntax.JSONSuffix}

// Project is a folder with its own configuration.
type Project struct {
	Dir     string // the folder that holds .gantry, absolute
	Digest  string // covers the configuration, the lock file and everything in content
	Trusted bool   // the user has trusted exactly this content
	Files   []string
	Rules   []RulesFile
	Roles   []RoleFile
	// Covered lists the files that the configuration reads with file(), and Programs those that it runs with command(). Both are
	// part of the digest. Gaps are programs whose files cannot be determined, and which do not run for that reason.
	Covered  []Covered
	Programs []string
	Gaps     []string
	content  map[string][]byte // by file name; rules with their folder; covered files with one of the prefixes in consent.go
	agreed   map[string][]byte // content that is trusted already and is not read again
	consent  *function.Consent
	parsed   map[string]parsed // the configuration files, by file name
}

// parsed is a parsed text with its diagnostics.
type parsed struct {
	body hcl.Body
	ds   diag.Diagnostics
}

func parse(text []byte, name string) parsed {
	body, ds := syntax.Parse(text, name)
	return parsed{body, ds}
}

// RulesFile is a file with command rules, as it was read.
type RulesFile struct{ Path, Text string }

// RoleFile is a file with a role for agents, as it was read.
type RoleFile struct{ Path, Text string }

// rolesDir is the folder with role files.
const rolesDir = "agents"

// Location of a project's rules.
const (
	rulesDir    = "rules"
	rulesSuffix = ".rules"
)

// FindProject returns the project that dir belongs to: the nearest folder, from dir upwards, that has a configuration in .gantry.
// It returns nil if there is none. Gantry's home folder is not a project.
func FindProject(dir, home string) (*Project, error) {
	return findProject(dir, home, function.Sources{LookupEnv: os.LookupEnv, Home: userHome(os.LookupEnv)})
}

func findProject(dir, home string, sources function.Sources) (*Project, error) {
	homeInfo, _ := os.Stat(home) // A home that does not exist yet matches no folder.
	for d := dir; ; {
		folder := filepath.Join(d, projectDir)
		if info, err := os.Stat(folder); err == nil && info.IsDir() && (homeInfo == nil || !os.SameFile(info, homeInfo)) {
			p := &Project{Dir: d, content: make(map[string][]byte), parsed: make(map[string]parsed)}
			for _, name := range append(fileNames[:], lock.FileName) {
				text, err := readFile(filepath.Join(folder, name))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return nil, err
				}
				p.content[name] = text
				if name != lock.FileName {
					p.Files = append(p.Files, filepath.Join(folder, name))
				}
			}
			if err := p.readRules(folder); err != nil {
				return nil, err
			}
			if err := p.readRoles(folder); err != nil {
				return nil, err
			}
			if len(p.Files)+len(p.Rules)+len(p.Roles) > 0 {
				for _, path := range p.Files {
					name := filepath.Base(path)
					p.parsed[name] = parse(p.content[name], shown(dir, path))
				}
				p.cover(sources)
				p.Digest = trust.Digest(p.content)
				return p, nil
			}
		}
		up := filepath.Dir(d)
		if up == d {
			return nil, nil
		}
		d = up
	}
}

// readRules reads the project's command rules. Like its configuration, they apply once the user has trusted them.
func (p *Project) readRules(folder string) error {
	entries, err := os.ReadDir(filepath.Join(folder, rulesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries { // sorted by name
		if !strings.HasSuffix(e.Name(), rulesSuffix) {
			continue
		}
		path := filepath.Join(folder, rulesDir, e.Name())
		text, err := readFile(path)
		if err != nil {
			return err
		}
		p.content[rulesDir+"/"+e.Name()] = text
		p.Rules = append(p.Rules, RulesFile{Path: path, Text: string(text)})
	}
	return nil
}

// readRoles reads the project's role files. Like its configuration, they apply once the user has trusted them.
func (p *Project) readRoles(folder string) error {
	files, err := ReadRoles(filepath.Join(folder, rolesDir))
	if err != nil {
		return err
	}
	for _, f := range files {
		name, err := filepath.Rel(folder, f.Path)
		if err != nil {
			return err
		}
		p.content[filepath.ToSlash(name)] = []byte(f.Text)
	}
	p.Roles = files
	return nil
}

// maxRoles bounds the number of role files in a folder.
const maxRoles = 256

// ReadRoles reads the role files of a folder and the folders below it, by path. A folder that does not exist has none.
func ReadRoles(folder string) (out []RoleFile, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case e.IsDir() || filepath.Ext(path) != ".md" && filepath.Ext(path) != ".toml":
			return nil
		case len(out) == maxRoles:
			return fmt.Errorf("%s contains more than %d role files", folder, maxRoles)
		}
		text, err := ReadFile(path)
		if err != nil {
			return err
		}
		out = append(out, RoleFile{Path: path, Text: string(text)})
		return nil
	})
	return out, err
}

// ReadFile reads a file that belongs to a project, trusted or not. It rejects anything but regular files, because a pipe would
// block forever, and files larger than the limit for configuration files.
func ReadFile(path string) ([]byte, error) {
	text, err := readFile(path)
	if err == nil && len(text) > syntax.MaxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, syntax.MaxBytes)
	}
	return text, err
}

// readFile reads at most one byte more than the limit, which tells the parser that the file is too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening it, which has side effects for some devices
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe since
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return io.ReadAll(io.LimitReader(f, syntax.MaxBytes+1))
}

// loader holds the state of one Load.
type loader struct {
	o        Options
	home     string
	dir      string
	typed    string
	sources  function.Sources
	root     *schema.Block
	files    diag.Files
	read     []File
	project  *Project
	profiles []string
	system   *node // the machine's file; nil if there is none
	merged   *node
	broken   bool // a file has syntax errors: missing settings are not reported
	held     []string
	commands []*function.Command
	ds       diag.Diagnostics
	// untrusted says that the project's files were ignored. It is printed before all other diagnostics, which it may explain.
	untrusted diag.Diagnostics
}

// problems returns all diagnostics in order.
func (l *loader) problems() diag.Diagnostics {
	l.ds.Sort()
	return append(slices.Clone(l.untrusted), l.ds...)
}

func newLoader(o Options) (*loader, diag.Diagnostics) {
	if o.LookupEnv == nil {
		o.LookupEnv = os.LookupEnv
	}
	if o.System == "" {
		o.System = systemFile
	}
	if o.Trusted == nil {
		o.Trusted = func(string, string) bool { return false }
	}
	user := userHome(o.LookupEnv)
	if o.Home == "" {
		if h, ok := o.LookupEnv("GANTRY_HOME"); ok && h != "" {
			o.Home = h
		} else if user != "" {
			o.Home = filepath.Join(user, projectDir)
		} else {
			return nil, diag.Diagnostics{{Severity: diag.Error, Summary: "gantry's home folder is unknown",
				Detail: "Neither GANTRY_HOME nor HOME is set.", Next: "set GANTRY_HOME to one of your folders"}}
		}
	}
	l := &loader{o: o, root: schema.Root(), files: make(diag.Files)}
	for to, path := range map[*string]string{&l.home: o.Home, &l.dir: o.Dir, &l.typed: cmp.Or(o.Typed, o.Dir)} {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, diag.Diagnostics{{Severity: diag.Error, Summary: "the working folder is unknown",
				Detail: "The reason is: " + err.Error() + ".", Next: "change to a folder that exists"}}
		}
		*to = abs
	}
	stored := l.o.Secret
	l.o.Secret = func(name string) (string, error) {
		if stored != nil {
			if v, err := stored(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
				return v, err
			}
		}
		return secretFile(l.home, name)
	}
	l.sources = function.Sources{LookupEnv: o.LookupEnv, Secret: l.o.Secret, Home: user}
	return l, nil
}

// secretFile reads a secret from gantry's home.
func secretFile(home, name string) (string, error) {
	if !validLabel(name) {
		return "", errors.New("the name of a secret consists of lower-case letters, digits, dashes and underscores")
	}
	path := filepath.Join(home, "secrets", name)
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return "", fmt.Errorf("%s is readable by other users; run chmod 600 on it", path)
	}
	text, err := readFile(path)
	if err != nil {
		return "", err
	}
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r') {
		text = text[:len(text)-1]
	}
	return string(text), nil
}

// layers reads and merges all layers, lowest first.
func (l *loader) layers(ctx context.Context) *node {
	l.findProject()
	root := l.lower(l.project != nil && !l.project.Trusted)
	root = merge(root, l.projectLayer())
	if l.o.File != "" {
		path := l.o.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(l.typed, path)
		}
		text, err := readFile(path)
		if err != nil {
			l.unreadable(path, err, "specify an existing file, or omit --config")
		} else {
			base := filepath.Dir(path)
			if filepath.Base(base) == projectDir && base != l.home {
				base = filepath.Dir(base) // naming a project's own file explicitly has the same meaning
			}
			root = merge(root, l.text(LayerFile, path, shown(l.dir, path), text, base))
		}
	}
	l.profiles = root.labels(schema.BlockProfile)
	if name := l.o.Profile; name != "" {
		p := root.blocks[key{schema.BlockProfile, name}]
		if p == nil {
			d := unknownLabel("profile", name, l.profiles)
			if len(l.profiles) == 0 {
				d.Next = fmt.Sprintf("add `profile %q { ... }` to gantry.hcl", name)
			}
			l.ds = append(l.ds, d)
		}
		root = merge(root, p)
	}
	r := &reader{files: l.files, from: l.origin(LayerCommandLine, l.typed, l.typed)}
	for _, s := range l.o.Sets {
		root = merge(root, r.set(s, l.root))
	}
	root = merge(root, l.keyed(root))
	l.ds, l.merged = append(l.ds, r.ds...), root
	if err := context.Cause(ctx); err != nil {
		l.ds = append(l.ds, diag.Diagnostic{Severity: diag.Error, Summary: "reading the configuration was interrupted",
			Detail: "The reason is: " + err.Error() + ".", Next: "try again"})
	}
	return root
}

// lower reads the layers below the project's. stranger is set if the project is not trusted.
func (l *loader) lower(stranger bool) *node {
	root := l.text(LayerBuiltin, "", builtinName, builtinText, l.dir)
	if stranger {
		root = merge(root, l.text(LayerBuiltin, "", strangerName, strangerText, l.dir))
	}
	if l.o.System != "-" {
		l.system = l.optional(LayerSystem, filepath.Dir(l.o.System), filepath.Dir(l.o.System), filepath.Base(l.o.System))
		root = merge(root, l.system)
	}
	if !l.o.NoUser {
		root = merge(root, l.optional(LayerUser, l.home, l.home, fileName))
		l.loose()
	}
	return root
}

func (l *loader) origin(layer Layer, base, dir string) *origin {
	sources := l.sources
	sources.Roots = []string{l.dir}
	if layer == LayerProject && l.project != nil {
		sources.Roots, sources.Consent, sources.Project = []string{l.project.Dir}, l.project.consent, true
	}
	return &origin{layer: layer, dir: dir, scope: function.NewScope(sources, base)}
}

// optional reads a file that need not exist, and its JSON form.
func (l *loader) optional(layer Layer, dir, base, name string) *node {
	var out *node
	for _, n := range []string{name, name + syntax.JSONSuffix} {
		path := filepath.Join(dir, n)
		text, err := l.o.User, error(nil)
		if layer != LayerUser || n != fileName || text == nil {
			text, err = readFile(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			l.unreadable(path, err, "make the file readable, or move it away")
		default:
			out = merge(out, l.text(layer, path, shown(l.dir, path), text, base))
		}
	}
	return out
}

// loose warns about files of the user that other users can write: they determine which programs run as the user.
func (l *loader) loose() {
	paths := []string{l.home}
	for _, name := range []string{fileName, fileName + syntax.JSONSuffix, "hooks.json", "rules", rolesDir} {
		paths = append(paths, filepath.Join(l.home, name))
	}
	rules, _ := filepath.Glob(filepath.Join(l.home, "rules", "*.rules")) // a home whose name is no valid pattern has none
	for _, path := range append(paths, rules...) {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if who := writers(info); who != "" {
			l.ds = append(l.ds, diag.Diagnostic{
				Severity: diag.Warning, Summary: fmt.Sprintf("%s can be written by %s (mode %#o)", path, who, info.Mode().Perm()),
				Detail: "It determines which programs run with your permissions.",
				Next:   "run `chmod go-w` on it, and make sure that it belongs to you",
			})
		}
	}
}

// first returns a file of the project for messages.
func (p *Project) first() string {
	if len(p.Files) > 0 {
		return p.Files[0]
	}
	if len(p.Rules) > 0 {
		return p.Rules[0].Path
	}
	return p.Roles[0].Path
}

// findProject finds the project and determines whether the user has trusted its exact content.
func (l *loader) findProject() {
	p, err := findProject(l.dir, l.home, l.sources)
	if err != nil {
		l.unreadable(filepath.Join(l.dir, projectDir), err, "make the file readable, or move it away")
		return
	}
	if l.project = p; p == nil {
		return
	}
	if p.Trusted = l.o.Trusted(p.Dir, p.Digest); !p.Trusted {
		l.untrusted = append(l.untrusted, diag.Diagnostic{
			Severity: diag.Warning, Summary: "the project's configuration is not trusted and was ignored",
			Detail: "It could start programs and change their permissions. Trust applies to its exact content. Until then, commands are " +
				"read-only, unless you set another sandbox mode yourself.",
			Range: diag.Range{File: shown(l.dir, p.first())},
			Next:  "review it, then run `gantry trust`",
		})
	}
}

// projectLayer reads the project's files if they are trusted.
func (l *loader) projectLayer() *node {
	p := l.project
	if p == nil || !p.Trusted {
		return nil
	}
	var out *node
	for _, path := range p.Files {
		// Relative paths are resolved against the project, not .gantry: users write `./bin/weather`.
		name := filepath.Base(path)
		out = merge(out, l.node(LayerProject, path, shown(l.dir, path), p.content[name], p.Dir, p.parsed[name]))
	}
	return out
}

// text reads a file's text. Its relative paths are resolved against base.
func (l *loader) text(layer Layer, path, name string, text []byte, base string) *node {
	return l.node(layer, path, name, text, base, parse(text, name))
}

// node is like text for a text that is parsed already.
func (l *loader) node(layer Layer, path, name string, text []byte, base string, from parsed) *node {
	l.files[name] = text
	l.read = append(l.read, File{Layer: layer, Path: path})
	l.ds = append(l.ds, from.ds...)
	if from.ds.HasErrors() {
		l.broken = true
		return nil
	}
	dir := base
	if path != "" {
		dir = filepath.Dir(path)
	}
	r := &reader{files: l.files, from: l.origin(layer, base, dir)}
	if layer != LayerBuiltin {
		l.hold(r.from.scope.Find(text, from.body))
	}
	start := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	n := r.node(from.body, l.root, "", start)
	l.ds = append(l.ds, r.ds...)
	return n
}

func (l *loader) unreadable(path string, err error, next string) {
	l.broken = true
	var reason error = err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		reason = pe.Err
	}
	l.ds = append(l.ds, diag.Diagnostic{
		Severity: diag.Error, Summary: "a configuration file can't be read", Detail: "The reason is: " + reason.Error() + ".",
		Range: diag.Range{File: shown(l.dir, path)}, Next: next,
	})
}

// DigestWith returns the digest that the project would have if the named files had other content. After a change that the user
// asked for, gantry uses it to renew the project's trust.
func (p *Project) DigestWith(changed map[string][]byte) string {
	next := &Project{Dir: p.Dir, content: maps.Clone(p.content), parsed: maps.Clone(p.parsed)}
	for name, text := range changed {
		next.content[name], next.parsed[name] = text, parse(text, name)
	}
	known := maps.Clone(next.content)
	maps.DeleteFunc(next.content, func(name string, _ []byte) bool { return isCovered(name) })
	next.agreed = known
	next.cover(function.Sources{LookupEnv: os.LookupEnv, Home: userHome(os.LookupEnv)})
	return trust.Digest(next.content)
}
