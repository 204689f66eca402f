package host

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// denialReasons are the words by which programs report that something was forbidden to them, and what they mean; codex-compatible.
var denialReasons = []struct{ words, reason string }{
	{"read-only file system", "read_only_file_system"}, {"operation not permitted", "operation_not_permitted"},
	{"permission denied", "permission_denied"}, {"failed to write file", "failed_to_write_file"},
}

// Bounds of what is looked through: the end of an output, where the error usually is, and of it that many lines.
const (
	maxDenialText  = 64 << 10
	maxDenialLines = 200
	maxDenialPath  = 4096
)

// quoted is a path as programs set it off.
var quoted = regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|‘([^’]+)’|`([^`']+)['`]")

func (h *Host) denial(g launch.Grant, cwd, text string) *event.Denial {
	return denialOf(h.opts.Environ, g, cwd, text)
}

// denialOf finds out from what a stopped command has printed what it was that its sandbox did not let it do. A path is named only
// where the grant says the same: what a program prints is not proof. nil: nothing that could be told. environ is the user's environment.
func denialOf(environ []string, g launch.Grant, cwd, text string) *event.Denial {
	if len(text) > maxDenialText {
		text = text[len(text)-maxDenialText:]
	}
	d := &event.Denial{Reason: "unknown", Sandbox: g.Mode}
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-maxDenialLines):]
	for _, line := range lines {
		line = strings.TrimRight(line, "\r")
		low := strings.ToLower(line)
		for _, r := range denialReasons {
			if !strings.Contains(low, r.words) {
				continue
			}
			if d.Reason == "unknown" {
				d.Reason = r.reason
			}
			for _, path := range pathsIn(line) {
				if found, access, why := stopped(environ, g, cwd, path, r.reason); found != "" {
					return &event.Denial{Reason: r.reason, Sandbox: g.Mode, Path: found, Access: access, Why: why}
				}
			}
		}
	}
	return d
}

// pathsIn are what in a line may be a path: what is set off by quotes, and what stands between colons or blanks.
func pathsIn(line string) (out []string) {
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" && len(s) <= maxDenialPath && !strings.ContainsRune(s, 0) {
			out = append(out, s)
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(line, 8) {
		for _, s := range m[1:] {
			add(s)
		}
	}
	parts := strings.Split(line, ": ")
	if len(parts) > 2 { // what stands first is the program that says it
		parts = append(parts[1:], parts[0])
	}
	for _, part := range parts {
		add(part)
		words := strings.Fields(part)
		for _, w := range words {
			if strings.Contains(w, "/") {
				add(strings.Trim(w, "'\"`‘’,;()"))
			}
		}
	}
	return out
}

// stopped tells whether a grant keeps a path from what the reason says, and names it as the machine knows it; empty: it does not. why is
// for what is read-only in a folder that may be written.
func stopped(environ []string, g launch.Grant, cwd, path, reason string) (found, access, why string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	path = filepath.Clean(path)
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // of a link it is what it leads to that counts
	if err != nil {
		return "", "", "" // nothing can be made there, whatever the sandbox says
	}
	path = filepath.Join(dir, filepath.Base(path))
	has := box.Reach(g, path)
	if has == box.AccessNone {
		return path, "read", ""
	}
	if reason == "permission_denied" {
		return "", "", ""
	}
	why = box.Kept(g, UserHome(environ), environ, path)
	if has == box.AccessRead || why != "" {
		return path, "write", why
	}
	return "", "", ""
}
