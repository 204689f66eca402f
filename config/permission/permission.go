// Package permission represents the permissions that the user grants to a plugin.
//
// It owns: the patterns for programs, how they match, and the digest that binds the user's consent to the permissions. It must not know:
// HCL, manifests except the names of capabilities, or where permissions are enforced.
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

	"github.com/gantry-agent/gantry/config/hosts"
)

// Set contains the permissions of a permissions block. The zero value grants only the declared capabilities, and all programs.
type Set struct {
	Network []string // patterns of hosts, see [hosts.Pattern]; [AllHosts] is the whole network, also without the host's proxy
	// Exec contains patterns for the programs that the host starts for the plugin: "git *" is git with one argument, "cargo test **"
	// allows any further arguments. nil: all programs.
	Exec  []string
	Read  []string // absolute folders and files
	Write []string // absolute folders and files; they can be read as well
	// Capabilities lists the granted ones of the capabilities that the manifest declares. nil: all of them.
	Capabilities []string
	Processes    Processes
}

// Processes is what the processes may do that the host starts for the plugin, in place of the general settings.
type Processes struct {
	Memory  int64    `json:"memory,omitzero"`  // bytes; 0: not set
	Network *Network `json:"network,omitzero"` // nil: not set
}

// Network is what these processes may reach.
type Network struct {
	Mode    string   `json:"mode"`
	Allow   []string `json:"allow"` // patterns of hosts, see [hosts.Pattern]
	Deny    []string `json:"deny"`
	Limited bool     `json:"limited,omitzero"` // only methods that change nothing
	Local   bool     `json:"local,omitzero"`   // allowed names may be local addresses
	Unknown string   `json:"unknown"`          // what applies to other hosts
}

// AllHosts is the value in Network that gives the plugin's process the whole network.
const AllHosts = "*"

// CheckNetwork returns an error for an invalid value of Network.
func CheckNetwork(value string) error {
	_, err := hosts.ParsePattern(value)
	return err
}

// WholeNetwork reports whether the plugin's process may connect to everything by itself.
func (s Set) WholeNetwork() bool { return slices.Contains(s.Network, AllHosts) }

// Capability reports whether a capability is declared by the manifest and granted.
func (s Set) Capability(name string, declared []string) bool {
	return slices.Contains(declared, name) && (s.Capabilities == nil || slices.Contains(s.Capabilities, name))
}

// AllowsExec reports whether the host may start a program with these arguments for the plugin.
func (s Set) AllowsExec(argv ...string) bool {
	return s.Exec == nil || slices.ContainsFunc(s.Exec, func(p string) bool { return matchWords(strings.Fields(p), argv) })
}

// matchWords matches arguments. "*" matches exactly one argument, "**" at the end any number of arguments.
func matchWords(pattern, argv []string) bool {
	for i, p := range pattern {
		if p == "**" {
			return true // CheckExec allows it only at the end
		}
		if i >= len(argv) || p != "*" && p != argv[i] {
			return false
		}
	}
	return len(argv) == len(pattern)
}

// CheckExec returns an error for an invalid pattern for programs.
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

// Canonical returns the set in canonical form: JSON with sorted lists without duplicates.
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
		Capabilities []string  `json:"capabilities,omitzero"`
		Exec         []string  `json:"exec"`
		Network      []string  `json:"network"`
		Processes    Processes `json:"processes,omitzero"`
		Read         []string  `json:"read"`
		Write        []string  `json:"write"`
	}{Exec: norm(s.Exec), Network: norm(s.Network), Processes: s.Processes, Read: norm(s.Read), Write: norm(s.Write)}
	if n := s.Processes.Network; n != nil {
		own := *n
		own.Allow, own.Deny = norm(n.Allow), norm(n.Deny)
		form.Processes.Network = &own
	}
	if s.Exec != nil && len(s.Exec) == 0 {
		form.Exec = []string{""} // no program, as opposed to nil, which allows all
	}
	if s.Capabilities != nil {
		form.Capabilities = norm(s.Capabilities)
	}
	b, err := json.Marshal(form)
	if err != nil {
		panic(err) // impossible for lists of strings
	}
	return b
}

// Digest returns the digest by which the user's consent is bound to the permissions: "g1:" followed by the SHA-256 of the canonical forms
// in base64. If several blocks use the same program, their sets are digested together; their order doesn't matter.
func Digest(sets ...Set) string {
	forms := make([]string, 0, len(sets))
	for _, s := range sets {
		forms = append(forms, string(s.Canonical()))
	}
	slices.Sort(forms)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(forms), "\n")))
	return "g1:" + base64.StdEncoding.EncodeToString(sum[:])
}
