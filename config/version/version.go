// Package version holds semantic versions and the constraints that choose among them.
//
// It owns: strict parsing, order, matching and the canonical printed form of both. It must not know: where versions come
// from, lock files, HCL.
//
// Start with [ParseConstraints] and [Best].
package version

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// Version is a semantic version in canonical form, without a leading "v". The zero Version is none.
type Version struct{ text string }

// Parse reads a version. Only the canonical form is taken: three numbers without leading zeros, then an optional
// pre-release and build part. The error names the canonical form where there is one.
func Parse(s string) (Version, error) {
	if canonical(s) {
		return Version{s}, nil
	}
	if normal := normalize(s); normal != "" {
		return Version{}, fmt.Errorf("version %q is not in canonical form: write %q", s, normal)
	}
	return Version{}, fmt.Errorf("version %q is not a semantic version like \"1.4.2\"", s)
}

// String returns the version as it was read.
func (v Version) String() string { return v.text }

// IsZero reports whether v is no version.
func (v Version) IsZero() bool { return v.text == "" }

// Prerelease reports whether v has a pre-release part.
func (v Version) Prerelease() bool { return semver.Prerelease("v"+v.text) != "" }

// Compare orders versions by precedence; build parts do not count.
func (v Version) Compare(w Version) int { return semver.Compare("v"+v.text, "v"+w.text) }

// canonical: x/mod/semver also takes "1" and "1.2", which is not enough here.
func canonical(s string) bool {
	if !semver.IsValid("v" + s) {
		return false
	}
	core, _, _ := strings.Cut(s, "+")
	core, _, _ = strings.Cut(core, "-")
	return strings.Count(core, ".") == 2
}

// normalize makes a canonical version of something close to one: a leading v, missing parts, leading zeros. It returns
// "" when it can't.
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
