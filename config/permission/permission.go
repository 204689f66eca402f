// Package permission holds what the user grants to a plugin, and answers whether something is within it.
//
// It owns: the patterns for programs, hosts and paths, how they match, and the digest that binds consent to content. It
// must not know: HCL, manifests beyond the names that they declare, who enforces the answer.
//
// Start with [Set].
package permission

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Set is what a permissions block grants. The zero Set grants nothing beyond the declared capabilities.
type Set struct {
	Network []string // "HOST:PORT", "*.example.com:443", "HOST:*"
	Exec    []string // words: "git *" is git with one argument, "cargo test **" any further ones
	Read    []string // absolute folders and files
	Write   []string // absolute folders and files; they may be read too
	// Capabilities restricts what of the manifest's declared capabilities is granted. nil: all of them.
	Capabilities []string
}

// Capability reports whether a capability is both declared by the manifest and granted here.
func (s Set) Capability(name string, declared []string) bool {
	return slices.Contains(declared, name) && (s.Capabilities == nil || slices.Contains(s.Capabilities, name))
}

// AllowsExec reports whether a program may be run with these arguments.
func (s Set) AllowsExec(argv ...string) bool {
	return slices.ContainsFunc(s.Exec, func(p string) bool { return matchWords(strings.Fields(p), argv) })
}

// matchWords: a "*" stands for exactly one argument, a "**" at the end for any number of them.
func matchWords(pattern, argv []string) bool {
	for i, p := range pattern {
		if p == "**" {
			return true // CheckExec lets it stand at the end only
		}
		if i >= len(argv) || p != "*" && p != argv[i] {
			return false
		}
	}
	return len(argv) == len(pattern)
}

// CheckExec says what is wrong with a pattern for programs.
func CheckExec(pattern string) error {
	words := strings.Fields(pattern)
	switch {
	case len(words) == 0:
		return fmt.Errorf("the pattern is empty: write a program and its arguments, like \"git status\"")
	case strings.Contains(words[0], "*"):
		return fmt.Errorf("pattern %q would allow every program: begin with a program's name", pattern)
	case slices.Contains(words[:len(words)-1], "**"):
		return fmt.Errorf("pattern %q: \"**\" may only stand at the end", pattern)
	}
	for _, w := range words[1:] {
		if strings.Contains(w, "*") && w != "*" && w != "**" {
			return fmt.Errorf("pattern %q: \"*\" stands for a whole argument, not for a part of %q", pattern, w)
		}
	}
	return nil
}

// AllowsHost reports whether a connection to a port of a host may be opened. Host names are compared without case.
func (s Set) AllowsHost(host string, port int) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return slices.ContainsFunc(s.Network, func(p string) bool {
		h, ps, err := splitHost(p)
		if err != nil || ps != "*" && ps != strconv.Itoa(port) {
			return false
		}
		if rest, ok := strings.CutPrefix(h, "*."); ok {
			return strings.HasSuffix(host, "."+rest)
		}
		return h == host
	})
}

// CheckHost says what is wrong with a pattern for hosts.
func CheckHost(pattern string) error {
	_, _, err := splitHost(pattern)
	return err
}

func splitHost(pattern string) (host, port string, err error) {
	if strings.Contains(pattern, "://") {
		return "", "", fmt.Errorf("pattern %q: write \"HOST:PORT\" without a scheme", pattern)
	}
	i := strings.LastIndexByte(pattern, ':')
	if i < 0 || strings.HasSuffix(pattern, "]") {
		return "", "", fmt.Errorf("pattern %q has no port: write \"%s:443\", or \"%s:*\" for every port", pattern, pattern, pattern)
	}
	host, port = strings.ToLower(strings.TrimSuffix(pattern[:i], ".")), pattern[i+1:]
	if n, err := strconv.Atoi(port); port != "*" && (err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port) {
		return "", "", fmt.Errorf("pattern %q: %q is not a port", pattern, port)
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		return host[1 : len(host)-1], port, nil
	}
	name := strings.TrimPrefix(host, "*.")
	if name == "" || strings.ContainsAny(name, "*:/ []@") {
		return "", "", fmt.Errorf("pattern %q: %q is not a host; \"*\" may only stand in front, as in \"*.example.com:443\"", pattern, host)
	}
	return host, port, nil
}

// AllowsRead reports whether a file may be read. Path must be absolute; resolve follows symbolic links of the part that
// exists (nil: [ResolveExisting]), so that a link out of a granted folder does not count as inside.
func (s Set) AllowsRead(path string, resolve func(string) (string, error)) bool {
	return within(path, slices.Concat(s.Read, s.Write), resolve)
}

// AllowsWrite reports whether a file may be created, changed or removed, under the same rules as AllowsRead.
func (s Set) AllowsWrite(path string, resolve func(string) (string, error)) bool {
	return within(path, s.Write, resolve)
}

func within(path string, roots []string, resolve func(string) (string, error)) bool {
	if resolve == nil {
		resolve = ResolveExisting
	}
	// A path with ".." is refused before cleaning: what it means depends on links that may change.
	if !filepath.IsAbs(path) || slices.Contains(strings.Split(filepath.ToSlash(path), "/"), "..") {
		return false
	}
	real, err := resolve(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(roots, func(root string) bool {
		root, err := resolve(root)
		if err != nil {
			return false
		}
		rel, err := filepath.Rel(root, real)
		return err == nil && filepath.IsLocal(rel)
	})
}

// ResolveExisting follows the symbolic links in the part of path that exists; the rest is kept.
func ResolveExisting(path string) (string, error) {
	path = filepath.Clean(path)
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		// A dangling link is not "a part that does not exist yet": writing through it would leave the folder.
		if isLink(path) || filepath.Dir(path) == path {
			return "", err
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// isLink reports whether the last part of path is a symbolic link, also when it leads nowhere.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// Canonical is the normal form as JSON: sorted, without repetition.
func (s Set) Canonical() []byte {
	norm := func(in []string) []string {
		out := make([]string, 0, len(in))
		for _, v := range in {
			out = append(out, strings.Join(strings.Fields(v), " "))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	form := struct {
		Capabilities []string `json:"capabilities,omitzero"`
		Exec         []string `json:"exec"`
		Network      []string `json:"network"`
		Read         []string `json:"read"`
		Write        []string `json:"write"`
	}{nil, norm(s.Exec), norm(s.Network), norm(s.Read), norm(s.Write)}
	if s.Capabilities != nil {
		form.Capabilities = norm(s.Capabilities)
	}
	b, err := json.Marshal(form)
	if err != nil {
		panic(err) // lists of strings always marshal
	}
	return b
}

// Digest binds consent to what was granted: "g1:" and the base64 SHA-256 of the canonical forms. Several blocks that use
// one program are one consent: their sets are digested together, in any order.
func Digest(sets ...Set) string {
	forms := make([]string, 0, len(sets))
	for _, s := range sets {
		forms = append(forms, string(s.Canonical()))
	}
	slices.Sort(forms)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(forms), "\n")))
	return "g1:" + base64.StdEncoding.EncodeToString(sum[:])
}
