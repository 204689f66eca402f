// Package source parses the `source` of a provider or plugin block, which says where its program comes from.
//
// It owns the four kinds of source, their spelling and normal form, and the choice of an installed version that satisfies a
// constraint. It does not know HCL, lock files, or how a program starts.
//
// Start with [Parse].
package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/config/version"
)

// Kind is the kind of a source.
type Kind int

// Kinds.
const (
	Unknown   Kind = iota
	Builtin        // "builtin/shell": next to the host's own executable
	Path           // "./bin/weather", "../x", "/opt/x", "~/x"
	Installed      // "weather" or "weather@1.4.2": in the plugins folder in gantry's home
	Registry       // "registry.example.com/acme/weather": installed under this address
)

// Source is a parsed source.
type Source struct {
	Kind    Kind
	Name    string          // last part: "shell", "weather"; empty for Path
	Path    string          // for Path: normal form with slashes, "./bin/weather"
	Host    string          // for Registry
	Owner   string          // for Registry
	Version version.Version // after "@"; zero if absent
}

// ErrNotInstalled is returned by [Source.Find] if no suitable version is installed.
var ErrNotInstalled = errors.New("not installed")

const builtin = "builtin/"

// Parse parses a source. Paths are normalized ("./a/../b" becomes "./b"); names that are not in normal form are rejected.
func Parse(s string) (Source, error) {
	switch {
	case s == "":
		return Source{}, errors.New(`the source is empty: write "builtin/NAME", a path like "./bin/NAME", or "NAME"`)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Source{}, fmt.Errorf("source %q contains control characters", s)
	case strings.Contains(s, "://"):
		return Source{}, fmt.Errorf("source %q is a URL: install the plugin first, then use its name or path", s)
	case isPath(s):
		return Source{Kind: Path, Path: normalPath(s)}, nil
	}
	name, at, hasVersion := strings.Cut(s, "@")
	var v version.Version
	if hasVersion {
		var err error
		if v, err = version.Parse(at); err != nil {
			return Source{}, fmt.Errorf("source %q: %w", s, err)
		}
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		if lower := strings.ToLower(p); lower != p {
			return Source{}, fmt.Errorf("source %q is not in canonical form: write %q", s, strings.ToLower(s))
		}
		if !validPart(p, i == 0 && len(parts) == 3) {
			return Source{}, fmt.Errorf("source %q: invalid name %q; names consist of lower-case letters, digits, dashes and underscores", s, p)
		}
	}
	switch {
	case parts[0] == "builtin" && len(parts) == 2:
		if hasVersion {
			return Source{}, fmt.Errorf("source %q: built-in plugins have no separate version; remove %q", s, "@"+at)
		}
		return Source{Kind: Builtin, Name: parts[1]}, nil
	case len(parts) == 1:
		return Source{Kind: Installed, Name: name, Version: v}, nil
	case len(parts) == 3 && strings.ContainsAny(parts[0], ".:"):
		return Source{Kind: Registry, Host: parts[0], Owner: parts[1], Name: parts[2], Version: v}, nil
	case len(parts) == 2:
		return Source{}, fmt.Errorf("source %q: a path starts with \"./\" or \"/\", a registry address with its host", s)
	}
	return Source{}, fmt.Errorf("source %q is not \"builtin/NAME\", a path, \"NAME\" or \"HOST/OWNER/NAME\"", s)
}

// NormalForm returns the spelling that [Parse] accepts if only the spelling of a source is wrong, and "" otherwise.
func NormalForm(s string) string {
	lower := strings.ToLower(s)
	if _, err := Parse(lower); err == nil && lower != s {
		return lower
	}
	return ""
}

// Address returns the normal form without a version, which identifies the program in the lock file.
func (s Source) Address() string {
	switch s.Kind {
	case Builtin:
		return builtin + s.Name
	case Path:
		return s.Path
	case Installed:
		return s.Name
	case Registry:
		return s.Host + "/" + s.Owner + "/" + s.Name
	}
	return ""
}

// File resolves a Path source against the folder base and the user's home folder. It returns "" for other kinds.
func (s Source) File(base, home string) string {
	switch {
	case s.Kind != Path:
		return ""
	case strings.HasPrefix(s.Path, "~/"):
		return filepath.Join(home, filepath.FromSlash(s.Path[2:]))
	case filepath.IsAbs(filepath.FromSlash(s.Path)):
		return filepath.FromSlash(s.Path)
	}
	return filepath.Join(base, filepath.FromSlash(s.Path))
}

// Find returns the program of an Installed or Registry source: the newest allowed version in the folder plugins. There,
// "ADDRESS@VERSION" is either the program or a folder that contains the program NAME.
func (s Source) Find(plugins string, allowed version.Constraints) (file string, v version.Version, err error) {
	if s.Kind != Installed && s.Kind != Registry {
		return "", v, fmt.Errorf("source %q does not refer to an installed plugin", s.Address())
	}
	dir, name := filepath.Split(filepath.Join(plugins, filepath.FromSlash(s.Address())))
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", v, fmt.Errorf("look for installed plugins: %w", err)
	}
	var there []version.Version
	for _, e := range entries {
		n, at, ok := strings.Cut(e.Name(), "@")
		if !ok || n != name {
			continue
		}
		if w, err := version.Parse(at); err == nil && (s.Version.IsZero() || s.Version == w) {
			there = append(there, w)
		}
	}
	// A version in the source allows exactly that version, even a pre-release.
	if !s.Version.IsZero() {
		exact := version.Constraints{{Op: version.Equal, Version: s.Version, Parts: 3}}
		allowed = append(exact, allowed...)
	}
	v, ok := version.Best(allowed, there)
	switch {
	case !ok && len(there) > 0:
		return "", v, fmt.Errorf("plugin %q: %w in a version that %q allows, only in %v", s.Address(), ErrNotInstalled, allowed, there)
	case !ok:
		return "", v, fmt.Errorf("plugin %q: %w below %s", s.Address(), ErrNotInstalled, plugins)
	}
	file = filepath.Join(dir, name+"@"+v.String())
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, s.Name)
	}
	return file, v, nil
}

func isPath(s string) bool {
	return s == "." || s == ".." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") ||
		strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "/") || filepath.IsAbs(s)
}

// normalPath cleans a path and keeps the prefix that marks it as a path.
func normalPath(s string) string {
	s = filepath.ToSlash(s)
	clean := path.Clean(s)
	if path.IsAbs(clean) || filepath.IsAbs(filepath.FromSlash(clean)) || strings.HasPrefix(clean, "~/") ||
		clean == ".." || strings.HasPrefix(clean, "../") {
		return clean
	}
	return "./" + clean
}

// validPart checks a part of an address. A host may also contain dots and a port.
func validPart(s string, host bool) bool {
	if s == "" || len(s) > 64 && !host || len(s) > 253 || s[0] == '-' || s[0] == '.' {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
		case host && (r == '.' || r == ':'):
		default:
			return false
		}
	}
	return true
}
