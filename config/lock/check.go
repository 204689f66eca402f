package lock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/version"
)

// Reason is how a program differs from its lock entry.
type Reason int

// Reasons.
const (
	ReasonUnknown     Reason = iota
	ReasonNotLocked          // no entry: ask the user, or refuse
	ReasonPlatform           // the entry lacks this platform: add the hash after asking the user
	ReasonBinary             // different content: refuse
	ReasonScheme             // no hash in a supported format: refuse
	ReasonVersion            // different version: refuse until locked again
	ReasonConstraints        // the block no longer allows the locked version
	ReasonContract           // different contract version
	ReasonManifest           // different manifest
	ReasonGrants             // the block grants other permissions than the user accepted: ask again
	ReasonFiles              // a file that the program loads, or their list, differs: refuse
)

// Program describes the program that is about to start. Empty fields are not compared.
type Program struct {
	Address     string
	Label       string // of the block; for messages
	Version     version.Version
	Constraints version.Constraints
	Contract    int
	Manifest    Hash
	Grants      Hash
	Files       Hash   // [NoFiles] if the block lists none
	Platform    string // empty: the current one
	Binary      Hash
}

// Mismatch is the error of [File.Check].
type Mismatch struct {
	Program Program
	Reason  Reason
	Lock    string // the lock file's name
	Range   diag.Range
	Detail  string
	Next    string
}

// Error names the program and the difference.
func (m *Mismatch) Error() string { return m.summary() + ": " + m.Detail + "; " + m.Next }

// Diagnostic returns m as a diagnostic for the lock entry.
func (m *Mismatch) Diagnostic() diag.Diagnostic {
	d := diag.Diagnostic{
		Severity: diag.Error, Summary: m.summary(), Detail: capital(m.Detail) + ".", Plugin: m.Program.Label, Range: m.Range, Next: m.Next,
	}
	return d
}

func (m *Mismatch) summary() string {
	name := m.Program.Label
	if name == "" {
		name = m.Program.Address
	}
	if m.Reason == ReasonNotLocked || m.Reason == ReasonPlatform {
		return fmt.Sprintf("plugin %q is not locked", name)
	}
	return fmt.Sprintf("plugin %q differs from its lock", name)
}

// Check compares a program with its entry. The error is a [*Mismatch].
func (f *File) Check(p Program) error {
	if p.Platform == "" {
		p.Platform = Platform()
	}
	m := func(r Reason, at diag.Range, next, format string, args ...any) error {
		return &Mismatch{Program: p, Reason: r, Lock: f.name, Range: at, Detail: fmt.Sprintf(format, args...), Next: next}
	}
	review := "if you changed it, run `gantry plugin lock` and review the difference; if not, find out who did"
	e, ok := f.entries[p.Address]
	if !ok {
		return m(ReasonNotLocked, diag.Range{File: f.name}, "review the program, then run `gantry plugin lock`",
			"%s has no entry for %q", f.name, p.Address)
	}
	hashes, ok := e.Platforms[p.Platform]
	switch {
	case !e.Version.IsZero() && p.Constraints != nil && !p.Constraints.Allows(e.Version):
		return m(ReasonConstraints, e.Range, "run `gantry plugin lock` to select a version again",
			"version %s is locked, but the block requires %q", e.Version, p.Constraints)
	case p.Binary != "" && (!ok || len(hashes.Binary) == 0):
		return m(ReasonPlatform, e.Range, "run `gantry plugin lock` on this platform", "it is locked for %s, but not for %s", platforms(e), p.Platform)
	case p.Binary != "":
		if err := Match(hashes.Binary, p.Binary); errors.Is(err, ErrNoScheme) {
			return m(ReasonScheme, e.Range, "update gantry, or run `gantry plugin lock`", "%v is recorded for %s", ErrNoScheme, p.Platform)
		} else if err != nil {
			return m(ReasonBinary, e.Range, review, "the program's checksum is %s, but %v is locked", p.Binary, hashes.Binary)
		}
	}
	switch {
	case !p.Version.IsZero() && p.Version != e.Version:
		return m(ReasonVersion, e.Range, review, "the program reports version %s, but %s is locked", p.Version, e.Version)
	case p.Contract != 0 && e.Contract != 0 && p.Contract != e.Contract:
		return m(ReasonContract, e.Range, review, "the program uses contract version %d, but %d is locked", p.Contract, e.Contract)
	case p.Manifest != "" && e.Manifest != "" && p.Manifest != e.Manifest:
		return m(ReasonManifest, e.Range, review, "the program's manifest differs from the locked one (%s, locked %s)", p.Manifest, e.Manifest)
	case p.Grants != "" && e.Grants != "" && p.Grants != e.Grants:
		return m(ReasonGrants, e.Range, "compare the permissions with what you accepted, then run `gantry plugin lock`",
			"the block's permissions differ from those that were accepted")
	case p.Files != "" && p.Files != cmp.Or(e.Files, NoFiles):
		return m(ReasonFiles, e.Range, "review the files that the block lists, then run `gantry plugin lock`",
			"a file that the program loads differs from its lock, or the list of files has changed")
	}
	return nil
}

func platforms(e Entry) string {
	var names []string
	for name, h := range e.Platforms {
		if len(h.Binary) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no platform"
	}
	slices.Sort(names)
	return diag.Quoted(names)
}

func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
