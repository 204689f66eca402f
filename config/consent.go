package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/reach"
)

// Trust in a project covers the files that its configuration reads with file() and the programs that it runs with command(),
// because changing them changes what the configuration does.

// Covered is a file that a project's configuration reads or runs.
type Covered struct {
	Path string
	Text []byte // content of a file that file() reads; nil if it is a program, or may be a key
	Err  error  // why the file could not be read
}

// Prefixes of the names under which covered files are part of a project's digest.
const (
	readName    = "reads:"
	unreadName  = "can't read:"
	runName     = "runs:"
	unknownName = "can't follow:"
)

// isCovered reports whether name has one of these prefixes, rather than being a file in .gantry.
func isCovered(name string) bool {
	return slices.ContainsFunc([]string{readName, unreadName, runName, unknownName}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// maxCovered bounds the total size of the files that file() reads.
const maxCovered = 16 << 20

var errCovered = errors.New("the files that the configuration reads exceed 16 MiB in total")

// Shown is a file whose content is shown to the user before they trust a project.
type Shown struct {
	Path string
	Text string
	// Hidden is set if the text may be a key.
	Hidden bool
	Err    error
}

// Shown returns the files that the project's digest covers, with their content at the time of the digest, and the programs with
// their current content.
func (p *Project) Shown() []Shown {
	var out []Shown
	for _, name := range append(fileNames[:], lock.FileName) {
		if text, ok := p.content[name]; ok {
			out = append(out, Shown{Path: filepath.Join(p.Dir, projectDir, name), Text: string(text)})
		}
	}
	for _, r := range p.Rules {
		out = append(out, Shown{Path: r.Path, Text: r.Text})
	}
	for _, r := range p.Roles {
		out = append(out, Shown{Path: r.Path, Text: r.Text})
	}
	for _, c := range p.Covered {
		out = append(out, Shown{Path: c.Path, Text: string(c.Text), Hidden: c.Text == nil, Err: c.Err})
	}
	for _, path := range p.Programs {
		text, err := reach.Read(path, maxShownProgram)
		out = append(out, Shown{Path: path, Text: string(text), Err: err})
	}
	return out
}

// maxShownProgram bounds how much of a program is shown.
const maxShownProgram = 256 << 10

// found returns the files and commands that the project's configuration files name. Parts that do not parse are skipped: they have
// no effect either.
func (p *Project) found(scope *function.Scope) (out function.Found) {
	for _, name := range fileNames {
		file, ok := p.parsed[name]
		if !ok {
			continue
		}
		f := scope.Find(p.content[name], file.body)
		out.Files, out.Commands = append(out.Files, f.Files...), append(out.Commands, f.Commands...)
	}
	return out
}

// cover adds the files and programs that the configuration names to the project's content. Content that was trusted before is kept
// as it was.
func (p *Project) cover(sources function.Sources) {
	p.consent = &function.Consent{Dir: p.Dir, Files: map[string]function.Content{}, Commands: map[string]string{}}
	sources.Roots = []string{p.Dir}
	scope := function.NewScope(sources, p.Dir)
	f := p.found(scope)
	p.Covered, p.Programs, p.Gaps = nil, nil, nil
	left := maxCovered
	for _, file := range f.Files {
		if _, twice := p.consent.Files[file.Path]; twice || !p.consent.Covers(file.Name, file.Path) {
			continue
		}
		name := p.below(file.Path)
		text, known := p.agreed[readName+name]
		var err error
		if !known {
			if text, err = function.Read(file.Path); err == nil && len(text) > left {
				err = errCovered
			}
		}
		p.consent.Files[file.Path] = function.Content{Text: text, Err: err}
		c := Covered{Path: file.Path, Err: err}
		if err == nil {
			left -= len(text)
			p.content[readName+name] = text
			if file.Text {
				c.Text = append([]byte{}, text...)
			}
		} else {
			p.content[unreadName+name] = nil
		}
		p.Covered = append(p.Covered, c)
	}
	for _, c := range f.Commands {
		key := c.Key()
		if _, twice := p.consent.Commands[key]; twice {
			continue
		}
		set := c.Reach()
		was, known := p.agreed[runName+key]
		sum := string(was)
		if !known {
			var err error
			if sum, err = c.Digest(); err != nil {
				sum = ""
				p.Gaps = append(p.Gaps, "command("+strings.Join(c.Argv, " ")+"): "+err.Error())
			}
		}
		p.consent.Commands[key] = sum
		if sum == "" {
			p.content[unknownName+key] = nil
			continue
		}
		p.content[runName+key] = []byte(sum)
		for _, path := range set.Paths() {
			if !slices.Contains(p.Programs, path) {
				p.Programs = append(p.Programs, path)
			}
		}
	}
}

func (p *Project) below(path string) string {
	if rel, err := filepath.Rel(p.Dir, path); err == nil {
		return filepath.ToSlash(rel)
	}
	return path
}

// hold records the files that a configuration file of any layer reads and runs.
func (l *loader) hold(f function.Found) {
	for _, file := range f.Files {
		l.held = append(l.held, file.Path)
	}
	l.commands = append(l.commands, f.Commands...)
}

// Held returns the files that the configuration reads with file() or runs with command(), and the folders that must not change for
// their sake. Sandboxed commands must not be able to write to them. The paths are looked up again at each call.
func (c *Config) Held() []string {
	out := slices.Clone(c.held)
	for _, program := range c.commands {
		out = append(out, program.Reach(append([]string{c.Dir}, c.Sandbox.WritableRoots...)...).Held()...)
	}
	out = append(out, c.loads()...)
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(p string) bool { _, err := os.Lstat(p); return err != nil })
}

// Reach returns the files that a program can run with the given arguments and that sandboxed commands could change.
func (c *Config) Reach(argv []string, dir string, listed []string) reach.Set {
	return reach.Query{Dir: dir, Roots: append([]string{c.Dir}, c.Sandbox.WritableRoots...), Listed: listed, Complete: listed != nil}.Argv(argv)
}
