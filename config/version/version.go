// Package version implements semantic versions and constraints on them.
//
// It owns strict parsing, ordering, matching and the canonical printed form of both. It does not know where versions come from,
// lock files or HCL.
//
// Start with [ParseConstraints] and [Best].
package version

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// Version is a semantic version in canonical form, without a leading "v". The zero Version means none.
type Version struct{ text string }

// Parse parses a version in canonical form: three numbers without leading zeros, then optional pre-release and build parts. The
// error suggests the canonical form if there is one.
func Parse(s string) (Version, error) {
	if canonical(s) {
		return Version{s}, nil
	}
	if normal := normalize(s); normal != "" {
		return Version{}, fmt.Errorf("version %q is not in canonical form: write %q", s, normal)
	}
	return Version{}, fmt.Errorf("version %q is not a semantic version like \"1.4.2\"", s)
}

// String returns the version as parsed.
func (v Version) String() string { return v.text }

// IsZero reports whether v is the zero Version.
func (v Version) IsZero() bool { return v.text == "" }

// Prerelease reports whether v has a pre-release part.
func (v Version) Prerelease() bool { return semver.Prerelease("v"+v.text) != "" }

// Compare compares versions by precedence. Build parts are ignored.
func (v Version) Compare(w Version) int { return semver.Compare("v"+v.text, "v"+w.text) }

// canonical reports whether s has all three parts: x/mod/semver also accepts "1" and "1.2".
func canonical(s string) bool {
	if !semver.IsValid("v" + s) {
		return false
	}
	core, _, _ := strings.Cut(s, "+")
	core, _, _ = strings.Cut(core, "-")
	return strings.Count(core, ".") == 2
}

// normalize returns the canonical form of a similar spelling, with a leading v, missing parts or leading zeros, or "" if there is
// none.
func normalize(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "v")
	rest := ""
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		s, rest = s[:i], s[i:]
	}
	if s == "" {
		return ""
	}
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return ""
	}
	for i, p := range parts {
		if p == "" || strings.Trim(p, "0123456789") != "" {
			return ""
		}
		if p = strings.TrimLeft(p, "0"); p == "" {
			p = "0"
		}
		parts[i] = p
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	if out := strings.Join(parts, ".") + rest; canonical(out) {
		return out
	}
	return ""
}
