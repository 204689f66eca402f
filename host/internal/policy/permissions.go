package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// Permissions are single things that calls may do beyond what their sandbox mode gives. Paths are absolute; who may write a folder
// may read it.
type Permissions struct {
	Read    []string // files and folders
	Write   []string // folders
	Network bool
}

// EveryHost is the host of an effect that reaches the network as a whole.
const EveryHost = "*"

// Empty reports whether nothing is permitted.
func (p Permissions) Empty() bool { return len(p.Read) == 0 && len(p.Write) == 0 && !p.Network }

// Effects are the permissions in the terms of calls.
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

// PermissionsOf are the permissions that effects stand for; not ok: some are no such thing.
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

// With is what both permit.
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

// Of is what of p an answer permits: never more than p, whatever it says.
func (p Permissions) Of(answer Permissions) Permissions {
	return Permissions{
		Read: common(p.Read, slices.Concat(answer.Read, answer.Write)), Write: common(p.Write, answer.Write), Network: p.Network && answer.Network,
	}
}

// common are the paths that lie in one of each list.
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

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// within reports whether a path is a folder or lies in it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// The texts by which requests for single permissions are refused.
const (
	refusedAdditional = "approval policy is %[1]s; reject command — you cannot request additional permissions unless the approval policy is on-request"
	additionalOff     = "additional permissions are switched off by the configuration; run the command without them, or ask for escalated permissions"
)

// additional reports whether a command asks for single permissions, and stays in its sandbox.
func (r Request) additional() bool {
	return r.Escalation != nil && !r.Escalation.Unsandboxed && len(r.Escalation.Additional) > 0 && slices.ContainsFunc(r.Effects, func(e contract.Effect) bool {
		_, ok := e.(contract.ExecEffect)
		return ok
	})
}

// decideWish decides on permissions that are asked for ahead of the calls that need them.
func (r Request) decideWish() Decision {
	switch {
	case r.Approval == Never:
		return Decision{Verdict: Forbid, Reason: refusedNever}
	case r.Approval == Granular && !r.Questions.Permissions:
		return Decision{Verdict: Forbid, Reason: refusedPermissions}
	case !r.Additional:
		return Decision{Verdict: Forbid, Reason: additionalOff}
	case r.Sandbox == FullAccess:
		return Decision{Verdict: Run, Reason: "the sandbox mode is full-access, which gives all of it"}
	}
	return Decision{Verdict: Ask, Reason: "it asks for more than its sandbox gives, for later calls as well"}
}
