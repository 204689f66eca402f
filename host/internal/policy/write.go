package policy

import (
	"fmt"

	"github.com/gantry-agent/gantry/sdk/contract"
)

func onlyWrites(effects []contract.Effect) bool {
	for _, e := range effects {
		if _, ok := e.(contract.WriteEffect); !ok {
			return false
		}
	}
	return len(effects) > 0
}

// outside are the files that a call says it changes and that its sandbox does not let it.
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

// decideOutside: who approves it widens the sandbox by just these files' folders. The texts of a refusal match codex 0.169.
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
		Verdict: Ask, Reason: "it changes what the sandbox keeps from being written: " + text,
		Wider: &contract.Escalation{Additional: []contract.Effect{contract.WriteEffect{Paths: paths}}},
	}
}
