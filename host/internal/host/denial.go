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

// denialOf finds out from what a stopped command has printed what it was that its sandbox did not let it do. A path is named only
// where the grant says the same: what a program prints is not proof. nil: nothing that could be told.
func denialOf(g launch.Grant, cwd, text string) *event.Denial {
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
				if found, access, ok := stopped(g, cwd, path, r.reason); ok {
					return &event.Denial{Reason: r.reason, Sandbox: g.Mode, Path: found, Access: access}
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
	for _, part := range strings.Split(line, ": ") {
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

// stopped tells whether a grant keeps a path from what the reason says, and names it as the machine knows it.
func stopped(g launch.Grant, cwd, path, reason string) (found, access string, ok bool) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	path = filepath.Clean(path)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil { // of a link it is what it leads to that counts
		path = filepath.Join(dir, filepath.Base(path))
	} else {
		return "", "", false // nothing can be made there, whatever the sandbox says
	}
	switch has := box.Reach(g, path); {
	case has == box.AccessNone:
		return path, "read", true
	case has == box.AccessRead && reason != "permission_denied":
		return path, "write", true
	}
	return "", "", false
}
