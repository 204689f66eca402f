package grants

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// denialReasons maps the phrases in programs' error messages to reasons. Compatible with codex.
var denialReasons = []struct{ words, reason string }{
	{"read-only file system", "read_only_file_system"}, {"operation not permitted", "operation_not_permitted"},
	{"permission denied", "permission_denied"}, {"failed to write file", "failed_to_write_file"},
}

// Limits of the search. It covers the end of an output, which usually contains the error.
const (
	maxDenialText  = 64 << 10
	maxDenialLines = 200
	maxDenialPath  = 4096
)

// quoted matches a quoted path in a message.
var quoted = regexp.MustCompile("'([^']+)'|\"([^\"]+)\"|‘([^’]+)’|`([^`']+)['`]")

// Denial finds out from a command's output what its sandbox did not permit. It names a path only if the grant denies access to that
// path: output alone is not proof. env is the user's environment.
func Denial(env []string, g launch.Grant, cwd, text string) *event.Denial {
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
				if found, access, why := denied(env, g, cwd, path, r.reason); found != "" {
					return &event.Denial{Reason: r.reason, Sandbox: g.Mode, Path: found, Access: access, Why: why}
				}
			}
		}
	}
	return d
}

// pathsIn returns the parts of a line that may be paths: quoted parts, and parts between colons or blanks.
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
	if len(parts) > 2 { // the first part is usually the name of the program
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

// denied returns the resolved path and the kind of access if a grant denies this access to a path for the given reason, otherwise "".
// why explains why a path inside a writable folder is read-only.
func denied(env []string, g launch.Grant, cwd, path, reason string) (found, access, why string) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	path = filepath.Clean(path)
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // the sandbox applies to the target of a link
	if err != nil {
		return "", "", "" // nothing can be created there, with or without a sandbox
	}
	path = filepath.Join(dir, filepath.Base(path))
	has := box.Reach(g, path)
	if has == box.AccessNone {
		return path, "read", ""
	}
	if reason == "permission_denied" {
		return "", "", ""
	}
	why = box.Kept(g, UserHome(env), env, path)
	if has == box.AccessRead || why != "" {
		return path, "write", why
	}
	return "", "", ""
}
