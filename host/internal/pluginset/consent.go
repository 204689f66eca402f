package pluginset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/plugin/binary"
)

// Consent is what the user has to accept before a declared process starts.
type Consent struct {
	config.Process
	Path   string // absolute path of the program
	SHA256 string // hex
	Pin    config.Pin
	Given  bool
	Before bool // something else was accepted under the same name
	// Changed says what differs from what was accepted under the same name, as a clause; empty: nothing, or nothing was accepted.
	Changed string
}

// compare notes what was accepted under the name of the process.
func (n *Consent) compare(content lock.Hash, programs ...lock.Hash) {
	var changed []string
	if content != n.Pin.Content {
		changed = append(changed, "its block has changed")
	}
	if !slices.Contains(programs, n.Pin.Program) {
		text := "its program " + oneLine(n.Path)
		if len(n.Pin.Scripts) > 0 {
			var paths []string
			for _, s := range n.Pin.Scripts {
				paths = append(paths, oneLine(s.Path))
			}
			text += ", or a script that it runs (" + strings.Join(paths, ", ") + "),"
		}
		changed = append(changed, cmp.Or(n.missing(), text+" has changed"))
	}
	n.Before, n.Given, n.Changed = true, len(changed) == 0, strings.Join(changed, ", and ")
}

// missing says which script of the process does not exist; "" if all do.
func (n *Consent) missing() string {
	for _, s := range n.Pin.Scripts {
		if errors.Is(s.Err, fs.ErrNotExist) {
			return "its script " + oneLine(s.Path) + " does not exist"
		}
	}
	return ""
}

// Consents finds out what the user has to accept of declared processes, and has accepted.
type Consents struct {
	Config *config.Config
	Home   string   // gantry's
	Env    []string // of commands; its PATH is searched for programs
}

// Of returns the consent of a process. The error says why its program can't be found or read, or why consents can't be read.
func (c Consents) Of(p config.Process) (out Consent, err error) {
	out = Consent{Process: p}
	if out.Path, err = c.program(p); err != nil {
		return out, err
	}
	if out.SHA256, err = binary.Digest(out.Path, binary.Records{Dir: filepath.Join(c.Home, "cache", "manifests", "digests")}); err != nil {
		return out, fmt.Errorf("read the program of process %q: %w", p.Name, err)
	}
	out.Pin = c.Config.Pin(p, out.Path, out.SHA256)
	if c.Config.InProject(p) {
		file, _, ds := c.Config.ProjectLock()
		if err := ds.Err(); err != nil {
			return out, err
		}
		if locked, known := file.Process(p.Key()); known {
			out.compare(locked.Content, locked.Programs...)
		}
		return out, nil
	}
	pins, err := trust.OpenProcesses(c.Home).List()
	if err != nil {
		return out, err
	}
	for _, pin := range pins {
		if pin.Key == p.Key() {
			content, program, _ := strings.Cut(pin.Digest, " ")
			out.compare(lock.Hash(content), lock.Hash(program))
		}
	}
	return out, nil
}

// program returns the absolute path of a process's program.
func (c Consents) program(p config.Process) (string, error) {
	name := p.Argv[0]
	if strings.Contains(name, "/") {
		return name, nil
	}
	list := environ.Lookup(c.Env, "PATH")
	if own, ok := p.Env["PATH"]; ok {
		list = own.Value
	}
	for _, dir := range filepath.SplitList(list) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); filepath.IsAbs(dir) && err == nil {
			return path, nil
		}
	}
	return "", hint.With(fmt.Errorf("%s: the program %q of process %q is not in PATH", p.Range, name, p.Name), "install it, or write its path in `command`")
}

// errNotAccepted returns the error for a process that the user has not accepted.
func (c Consents) errNotAccepted(n Consent) error {
	text := "has not been accepted"
	switch {
	case n.Before:
		text = "differs from what was accepted: " + n.Changed
	case n.missing() != "":
		text += ", and " + n.missing()
	}
	next := fmt.Sprintf("review it, then run `gantry plugin lock %s` on a terminal", n.Plugin)
	if c.Config.InProject(n.Process) {
		next += " and restart gantry"
	}
	return hint.With(fmt.Errorf("%s: process %q of plugin %q %s", n.Range, n.Name, n.Plugin, text), next)
}

// Check returns an error unless the user has accepted a process. path is that of its program.
func (c Consents) Check(p config.Process) (path string, err error) {
	n, err := c.Of(p)
	if err == nil && !n.Given {
		err = c.errNotAccepted(n)
	}
	return n.Path, err
}

// Describe says what a process is, for the user who is asked about it, one line each.
func (c Consents) Describe(n Consent) []string {
	s := n.Sandbox
	may := []string{"read what commands can read"}
	if len(s.ReadableRoots) > 0 {
		may = []string{"read " + strings.Join(s.ReadableRoots, ", ") + " and the system's programs"}
	}
	if len(s.DenyRead) > 0 {
		may[0] += " but " + strings.Join(s.DenyRead, ", ")
	}
	if len(s.WritableRoots) > 0 {
		may = append(may, "write in "+strings.Join(s.WritableRoots, ", "))
	}
	var hosts []string
	for _, h := range s.Network {
		hosts = append(hosts, h.String())
	}
	if len(hosts) > 0 {
		may = append(may, "reach "+strings.Join(hosts, ", "))
	}
	if s.FullAccess {
		may = []string{"do everything that you can: it has no sandbox"}
	}
	var names []string
	for name := range n.Env {
		names = append(names, name)
	}
	slices.Sort(names)
	lines := []string{"program:   " + n.Path, "sha256:    " + n.SHA256, "arguments: " + fmt.Sprintf("%q", n.Argv[1:])}
	for _, s := range n.Pin.Scripts {
		sum := s.SHA256
		switch {
		case errors.Is(s.Err, fs.ErrNotExist):
			sum = "none: the script does not exist"
		case s.Err != nil:
			sum = "none: " + s.Err.Error()
		}
		lines = append(lines, "script:    "+s.Path, "sha256:    "+sum)
	}
	lines = append(lines, "variables: "+cmp.Or(strings.Join(names, ", "), "none"))
	for _, name := range n.Loading() {
		lines = append(lines, "can load code: "+name+"="+shownValue(name, n.Env[name]))
	}
	lines = append(lines, "folder:    "+cmp.Or(n.Cwd, "the working folder"), "it may:    "+strings.Join(may, "; "))
	for i, line := range lines {
		lines[i] = oneLine(line)
	}
	return lines
}

// shownValue returns the value of a variable as a user who is asked sees it, who is not always the only one to see it.
func shownValue(name string, v config.Secret) string {
	switch {
	case v.Command != nil:
		return fmt.Sprintf("(the output of %q)", v.Command.Argv)
	case v.Err != nil:
		return "(missing)"
	case v.Stored:
		return "(contains a stored secret)"
	}
	return diag.Mask(diag.MaskValue(name, v.Value))
}

// oneLine quotes a text that could look like another one, or like other lines: it has line breaks, or characters that are invisible or change
// the order of others.
func oneLine(text string) string {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}
