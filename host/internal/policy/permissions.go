package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Permissions are what calls may do beyond their sandbox mode. Paths are absolute; permission to write a folder includes reading it.
type Permissions struct {
	Read    []string // files and folders
	Write   []string // folders
	Network bool
}

// EveryHost is the host of an effect that reaches the whole network.
const EveryHost = "*"

// Empty reports whether nothing is permitted.
func (p Permissions) Empty() bool { return len(p.Read) == 0 && len(p.Write) == 0 && !p.Network }

// Effects returns the permissions as effects of a call.
func (p Permissions) Effects() []contract.Effect {
	var out []contract.Effect
	if len(p.Read) > 0 {
		out = append(out, contract.ReadEffect{Paths: p.Read})
	}
	if len(p.Write) > 0 {
		out = append(out, contract.WriteEffect{Paths: p.Write})
	}
	if p.Network {
		out = append(out, contract.NetworkEffect{Host: EveryHost})
	}
	return out
}

// PermissionsOf is the inverse of [Permissions.Effects]; ok is false if some effects can't be granted as permissions.
func PermissionsOf(effects []contract.Effect) (p Permissions, ok bool) {
	for _, e := range effects {
		switch e := e.(type) {
		case contract.ReadEffect:
			p.Read = append(p.Read, e.Paths...)
		case contract.WriteEffect:
			p.Write = append(p.Write, e.Paths...)
		case contract.NetworkEffect:
			if e.Host != EveryHost {
				return Permissions{}, false
			}
			p.Network = true
		default:
			return Permissions{}, false
		}
	}
	return p, true
}

// With returns the union of both.
func (p Permissions) With(o Permissions) Permissions {
	return Permissions{Read: union(p.Read, o.Read), Write: union(p.Write, o.Write), Network: p.Network || o.Network}
}

// Covers reports whether p permits all that o does.
func (p Permissions) Covers(o Permissions) bool {
	in := func(path string, lists ...[]string) bool {
		return slices.ContainsFunc(slices.Concat(lists...), func(dir string) bool { return within(path, dir) })
	}
	for _, path := range o.Write {
		if !in(path, p.Write) {
			return false
		}
	}
	for _, path := range o.Read {
		if !in(path, p.Read, p.Write) {
			return false
		}
	}
	return p.Network || !o.Network
}

// Of returns the part of p that an answer permits.
func (p Permissions) Of(answer Permissions) Permissions {
	return Permissions{
		Read: common(p.Read, slices.Concat(answer.Read, answer.Write)), Write: common(p.Write, answer.Write), Network: p.Network && answer.Network,
	}
}

// common returns the paths that are within a path of each list.
func common(asked, given []string) []string {
	var out []string
	for _, a := range asked {
		for _, g := range given {
			switch {
			case within(a, g):
				out = union(out, []string{a})
			case within(g, a):
				out = union(out, []string{g})
			}
		}
	}
	return out
}

// union appends the elements of b that a lacks.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// within reports whether a path is dir or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// Refusals of requests for permissions. The first matches codex 0.169.
const (
	refusedAdditional = "approval policy is %[1]s; reject command — you cannot request additional permissions unless the approval policy is on-request"
	additionalOff     = "additional permissions are turned off by the configuration; run the command without them, or request escalated permissions"
)

// additional reports whether a command requests permissions and stays in its sandbox.
func (r Request) additional() bool {
	return r.Escalation != nil && !r.Escalation.Unsandboxed && len(r.Escalation.Additional) > 0 && slices.ContainsFunc(r.Effects, func(e contract.Effect) bool {
		_, ok := e.(contract.ExecEffect)
		return ok
	})
}

// decidePermissions decides on a request for permissions before the calls that need them.
func (r Request) decidePermissions() Decision {
	switch {
	case r.Approval == Never:
		return Decision{Verdict: Forbid, Reason: refusedNever}
	case r.Approval == Granular && !r.Questions.Permissions:
		return Decision{Verdict: Forbid, Reason: refusedPermissions}
	case !r.Additional:
		return Decision{Verdict: Forbid, Reason: additionalOff}
	case r.Sandbox == FullAccess:
		return Decision{Verdict: Run, Reason: "the sandbox mode is full-access, which includes all permissions"}
	}
	return Decision{Verdict: Ask, Reason: "it requests more than the sandbox allows, for later calls as well"}
}
