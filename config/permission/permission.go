// Package permission holds what the user grants to a plugin, and answers whether something is within it.
//
// It owns: the patterns for programs, how they match, and the digest that binds consent to content. It must not know: HCL,
// manifests beyond the names that they declare, who enforces the answer.
//
// Start with [Set].
package permission

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Set is what a permissions block grants. The zero Set grants nothing beyond the declared capabilities.
type Set struct {
	Network []string // [AllHosts], or nothing
	// Exec are the programs that the host starts for it: "git *" is git with one argument, "cargo test **" any further ones. nil: any.
	Exec  []string
	Read  []string // absolute folders and files
	Write []string // absolute folders and files; they may be read too
	// Capabilities restricts what of the manifest's declared capabilities is granted. nil: all of them.
	Capabilities []string
}

// AllHosts is the whole network, the one value of Network: a process of its own can't be held to single hosts.
const AllHosts = "*"

// CheckNetwork says what is wrong with a value of Network.
func CheckNetwork(value string) error {
	if value == AllHosts {
		return nil
	}
	return fmt.Errorf("a plugin can't be restricted to %q: its process has access to the whole network or to none", value)
}

// Capability reports whether a capability is both declared by the manifest and granted here.
func (s Set) Capability(name string, declared []string) bool {
	return slices.Contains(declared, name) && (s.Capabilities == nil || slices.Contains(s.Capabilities, name))
}

// AllowsExec reports whether the host may start a program with these arguments for it.
func (s Set) AllowsExec(argv ...string) bool {
	return s.Exec == nil || slices.ContainsFunc(s.Exec, func(p string) bool { return matchWords(strings.Fields(p), argv) })
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
		return fmt.Errorf("empty pattern: use a program and its arguments, like \"git status\"")
	case strings.Contains(words[0], "*"):
		return fmt.Errorf("pattern %q would allow every program: start with the name of a program", pattern)
	case slices.Contains(words[:len(words)-1], "**"):
		return fmt.Errorf("pattern %q: \"**\" is only allowed at the end", pattern)
	}
	for _, w := range words[1:] {
		if strings.Contains(w, "*") && w != "*" && w != "**" {
			return fmt.Errorf("pattern %q: \"*\" matches a whole argument, not a part of %q", pattern, w)
		}
	}
	return nil
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
	if s.Exec != nil && len(s.Exec) == 0 {
		form.Exec = []string{""} // no program: which is less than no list
	}
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
