package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Refusals, in the words of codex 0.169, which models know.
const (
	refusedNever       = "approval required by policy, but AskForApproval is set to Never"
	refusedRules       = "approval required by policy rule, but AskForApproval::Granular.rules is false"
	refusedSandbox     = "approval required by policy, but AskForApproval::Granular.sandbox_approval is false"
	refusedElicitation = "approval required by policy, but AskForApproval::Granular.mcp_elicitations is false"
	refusedPermissions = "approval required by policy, but AskForApproval::Granular.request_permissions is false"
	rejectedPattern    = "`%s` rejected: %s"
)

// Canonical returns a command line in a form for comparison: lines that do the same have the same form, if that is known.
func Canonical(argv []string) []string { return command.Canonical(argv) }

// Script returns a command line as a script: the script that it gives to a shell, or its words.
func Script(argv []string) string {
	if command.Lower(argv).Shell != "" {
		return argv[len(argv)-1]
	}
	return command.Join(argv)
}

// decideExec decides on a command: first by rules that restrict any part of it, then by rules that allow all of it, then by its kind.
func (r Request) decideExec(e contract.ExecEffect) Decision {
	if len(e.Argv) == 0 {
		return r.doubtful("there is no command to decide on")
	}
	if strings.Contains(strings.Join(e.Argv, ""), "\x00") {
		// No system starts such a program, and the part before the byte may be a forbidden command.
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, command.Join(e.Argv), "the command contains a zero byte")}
	}
	wide := command.Extract(e.Argv)
	if d := r.restrict(wide, e.Argv); d.Verdict != Run {
		return d
	}
	low := command.Lower(e.Argv)
	left, allowed, short := r.left(low, e.Cwd)
	if len(left) == 0 {
		d := Decision{Verdict: Run, Reason: "rules allow it", Rules: allowed}
		if r.Sandbox != FullAccess {
			d.Wider = &contract.Escalation{Unsandboxed: true}
		}
		return d
	}
	if c, why := r.dangerous(low, left, wide); why != "" {
		if r.Approval == Never {
			return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, command.Join(e.Argv), why)}
		}
		return Decision{Verdict: Ask, Reason: "it contains a dangerous command: " + strings.Join(c.Argv(), " ")}
	}
	if wide.Err != nil && (r.Approval != Never || r.Sandbox == FullAccess) {
		return r.doubtful("the command can't be parsed: " + wide.Err.Error())
	}
	d := r.byKind(low, e)
	if d.Verdict == Ask && !r.additional() { // a rule would let it run outside of its sandbox, which it does not request
		d.Offer = r.offer(low, left)
	}
	if len(short) == len(left) && r.Sandbox != FullAccess {
		slices.SortFunc(short, func(a, b *rules.Prefix) int { return strings.Compare(a.Where(), b.Where()) })
		d.Short = slices.Compact(short)
		if offer := r.offer(low, left); d.Verdict == Run && offer != nil {
			lines := make([]string, len(offer))
			for i, words := range offer {
				lines[i] = rules.PrefixLine(words)
			}
			d.Hint = "to let it run outside of the sandbox without an approval, add " + strings.Join(lines, " and ") + " to your rules"
		}
	}
	return d
}

// doubtful asks, or refuses if the approval policy permits no questions.
func (r Request) doubtful(reason string) Decision {
	if r.Approval == Never {
		return Decision{Verdict: Forbid, Reason: reason + "; " + refusedNever}
	}
	return Decision{Verdict: Ask, Reason: reason}
}

// byKind decides on a command that no rule matches, by the approval policy, the sandbox, and whether the command is read-only.
func (r Request) byKind(low command.Lowered, e contract.ExecEffect) Decision {
	switch r.Approval {
	case Untrusted:
		if r.readOnly(low, e) {
			return Decision{Verdict: Run, Reason: "it only reads"}
		}
		return r.decideOther()
	case OnRequest, Granular:
		return r.decideOther()
	}
	return Decision{Verdict: Run, Reason: r.contained()}
}

// readOnly reports whether a command is known to be read-only. Without a sandbox git is not, as it runs programs that a repository
// configures.
func (r Request) readOnly(low command.Lowered, e contract.ExecEffect) bool {
	if !r.SafeCommands || r.escalates() || !command.Safe(e.Argv) || low.Shell != "" && !r.trusted(low.Shell, e.Cwd) {
		return false
	}
	for _, c := range low.Commands {
		if !r.trusted(c[0].Text, e.Cwd) || r.Sandbox == FullAccess && c[0].Text == "git" {
			return false
		}
	}
	return true
}

func (r Request) trusted(program, cwd string) bool {
	return r.Trusted != nil && r.Trusted(program, cwd)
}

// left returns the commands that no rule allows, the rules that allow the others, and the rules that match only the first words of a
// command, once for each command. Rules allow commands only in a plain script.
func (r Request) left(low command.Lowered, cwd string) (left []command.Command, allowed, short []*rules.Prefix) {
	for _, c := range low.Commands {
		rule, further := r.allows(c, cwd)
		switch {
		case !low.Plain || low.Shell != "" && !r.trusted(low.Shell, cwd):
			left = append(left, c)
		case rule == nil:
			left = append(left, c)
			if further != nil {
				short = append(short, further)
			}
		default:
			allowed = append(allowed, rule)
		}
	}
	return left, allowed, short
}

// allows finds a rule that allows a command; nil: none does. further is a rule that matches only its first words.
func (r Request) allows(c command.Command, cwd string) (rule, further *rules.Prefix) {
	if r.RulesErr != nil || len(c) == 0 || !c[0].Fixed {
		return nil, nil
	}
	matches := r.Rules.Match(c.Argv(), true)
	if rules.Strictest(matches) != rules.Allow {
		return nil, nil
	}
	for _, m := range matches {
		known := true
		for _, w := range c[:len(m.Prefix)] {
			known = known && w.Fixed
		}
		// A rule for a name is for the system's program of that name, not for any other.
		named := m.Program == "" || command.System(m.Program) || r.Rules.Listed(m.Program)
		switch {
		case !known || !named || !r.trusted(c[0].Text, cwd):
		case !command.Reaches(c, len(m.Prefix)):
			return m.Rule, nil
		default:
			further = m.Rule
		}
	}
	return nil, further
}

// dangerous finds a destructive command among those that no rule allows.
func (r Request) dangerous(low command.Lowered, left []command.Command, wide command.Extraction) (command.Command, string) {
	if !low.Plain {
		return wide.Dangerous()
	}
	for _, c := range left {
		if c, why := command.Extract(c.Argv()).Dangerous(); why != "" {
			return c, why
		}
	}
	return nil, ""
}

// restrict applies the rules that ask about or forbid commands, to every command anywhere in the line. If it depends on the execution
// whether such a rule applies, it asks.
func (r Request) restrict(x command.Extraction, argv []string) Decision {
	broken := Decision{Verdict: Run}
	if r.RulesErr != nil {
		broken = r.byRule("the rules can't be relied on: "+r.RulesErr.Error(), nil)
	}
	if !r.Rules.Restricts() {
		return broken
	}
	var sure, may *rules.Prefix
	for _, c := range x.Commands {
		for _, p := range r.candidates(c) {
			switch yes, maybe := begins(c, p.Pattern); {
			case yes:
				sure = stricter(sure, p)
			case maybe:
				may = stricter(may, p)
			}
		}
	}
	switch {
	case sure != nil && sure.Decision == rules.Forbidden:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, command.Join(argv), forbidden(sure)), Rules: []*rules.Prefix{sure}}
	case r.RulesErr != nil:
		return broken
	case sure != nil:
		return r.byRule(requires(argv, sure), []*rules.Prefix{sure})
	case may != nil:
		return r.byRule(fmt.Sprintf("whether the rule for %s applies is only known when it runs", pattern(may)), []*rules.Prefix{may})
	case x.Err != nil:
		return r.byRule("there are rules that restrict commands, and this one can't be parsed: "+x.Err.Error(), nil)
	case len(x.Unresolved) > 0:
		return r.byRule("there are rules that restrict commands, and what this one starts is only known when it runs: "+x.Unresolved[0], nil)
	}
	return Decision{Verdict: Run}
}

// byRule asks because of rules, or refuses if the approval policy permits no such question.
func (r Request) byRule(reason string, by []*rules.Prefix) Decision {
	switch {
	case r.Approval == Never:
		return Decision{Verdict: Forbid, Reason: withReason(refusedNever, reason), Rules: by}
	case r.Approval == Granular && !r.Questions.Rules:
		return Decision{Verdict: Forbid, Reason: withReason(refusedRules, reason), Rules: by}
	}
	return Decision{Verdict: Ask, Reason: reason, Rules: by}
}

func withReason(refusal, reason string) string { return refusal + " (" + reason + ")" }

// candidates returns the restricting rules for a command's name, with and without its folder.
func (r Request) candidates(c command.Command) []*rules.Prefix {
	if !c[0].Fixed {
		return nil // part of the extraction's Unresolved
	}
	out := r.Rules.Restrictive(c[0].Text)
	if name := command.Name(c[0].Text); name != c[0].Text {
		out = append(out, r.Rules.Restrictive(name)...)
	}
	return out
}

// begins reports whether a command whose first word matches a pattern begins with all of it, or may, depending on words that are not known.
func begins(c command.Command, pattern [][]string) (yes, maybe bool) {
	for i := 1; i < len(pattern); i++ {
		switch {
		case i >= len(c):
			return false, false
		case !c[i].Fixed:
			return false, true
		case !slices.Contains(pattern[i], c[i].Text):
			return false, false
		}
	}
	return true, false
}

// stricter returns the stricter of two rules, or else the longer one; a may be nil.
func stricter(a, b *rules.Prefix) *rules.Prefix {
	if a == nil || b.Decision > a.Decision || b.Decision == a.Decision && len(b.Pattern) > len(a.Pattern) {
		return b
	}
	return a
}

func forbidden(p *rules.Prefix) string {
	if p.Justification != "" {
		return p.Justification
	}
	return fmt.Sprintf("policy forbids commands starting with `%s`", pattern(p))
}

func requires(argv []string, p *rules.Prefix) string {
	if p.Justification != "" {
		return fmt.Sprintf("`%s` requires approval: %s", command.Join(argv), p.Justification)
	}
	return fmt.Sprintf("`%s` requires approval by policy", command.Join(argv))
}

// pattern returns the words of a rule as text, with bars between alternatives.
func pattern(p *rules.Prefix) string {
	words := make([]string, len(p.Pattern))
	for i, alternatives := range p.Pattern {
		words[i] = strings.Join(alternatives, "|")
	}
	return strings.Join(words, " ")
}

// decideInput decides on text that is typed into a session. If a shell runs there, the text is a script, which continues the incomplete
// line that was typed before. Text in another language is opaque.
func (r Request) decideInput(e contract.SessionInputEffect) Decision {
	d := Decision{Verdict: Run, Reason: r.contained()}
	if e.Language == "" {
		d = r.decideShellInput(e.Text)
	}
	if d.Verdict != Run {
		return d
	}
	// The approval was for the program, not for all input to it.
	if r.Outside && r.Sandbox != FullAccess {
		if r.Approval == Never || r.Approval == Granular && !r.Questions.Sandbox {
			return Decision{Verdict: Forbid, Reason: "rejected: the session runs outside of the sandbox, and the approval policy permits no question about the input"}
		}
		return Decision{Verdict: Ask, Reason: "the session runs outside of the sandbox, so the input is not confined"}
	}
	return d
}

// decideShellInput decides on text that a shell may read.
func (r Request) decideShellInput(text string) Decision {
	scripts, sure := r.Typed.scripts(text)
	d := Decision{Verdict: Run, Reason: r.contained()}
	for _, s := range scripts {
		if next := r.decideTyped(s); next.Verdict > d.Verdict {
			d = next
		}
	}
	if !sure && r.Rules.Restricts() {
		if next := r.byRule("there are rules that restrict commands, and the input has keys that move the cursor, complete words or recall lines; type the whole command instead", nil); next.Verdict > d.Verdict {
			d = next
		}
	}
	return d
}

// decideTyped decides on one of the scripts that input may become.
func (r Request) decideTyped(text string) Decision {
	x := command.ExtractScript(strings.ReplaceAll(text, "\x00", "")) // shells ignore zero bytes
	if d := r.restrict(x, []string{text}); d.Verdict != Run {
		return d
	}
	if c, why := x.Dangerous(); why != "" {
		if r.Approval == Never {
			return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, strings.TrimSpace(text), why)}
		}
		return Decision{Verdict: Ask, Reason: "the input contains a dangerous command: " + strings.Join(c.Argv(), " ")}
	}
	return Decision{Verdict: Run}
}
