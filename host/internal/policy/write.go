package policy

import (
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// onlyWrites reports whether all effects are changes of files, and there are any.
func onlyWrites(effects []contract.Effect) bool {
	return len(effects) > 0 && !slices.ContainsFunc(effects, func(e contract.Effect) bool {
		_, ok := e.(contract.WriteEffect)
		return !ok
	})
}

// outside returns the files that the call declares to change and that its sandbox keeps from being written.
func (r Request) outside() []string {
	if r.Sandbox == FullAccess || r.unsandboxed() || r.Writable == nil {
		return nil
	}
	var out []string
	for _, e := range r.Effects {
		w, ok := e.(contract.WriteEffect)
		if !ok {
			continue
		}
		for _, p := range w.Paths {
			if !r.Writable(p) {
				out = append(out, p)
			}
		}
	}
	return out
}

// decideOutside decides on changes of files outside of the sandbox. An approval grants writing exactly these files. The refusals match
// codex 0.169.
func (r Request) decideOutside(paths []string) Decision {
	if r.Approval == Never || r.Approval == Granular && !r.Questions.Sandbox {
		what := "writing outside of the project"
		if r.Sandbox == "read-only" {
			what = "writing is blocked by read-only sandbox"
		}
		return Decision{Verdict: Forbid, Reason: "patch rejected: " + what + "; rejected by user approval settings"}
	}
	text := paths[0]
	if len(paths) > 1 {
		text = fmt.Sprintf("%s and %d more", text, len(paths)-1)
	}
	return Decision{
		Verdict: Ask, Reason: "it changes files that the sandbox protects: " + text,
		Wider: &contract.Escalation{Additional: []contract.Effect{contract.WriteEffect{Paths: paths}}},
	}
}
