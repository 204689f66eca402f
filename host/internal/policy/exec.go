package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// The texts of refusals, as models know them of codex 0.169.
const (
	refusedNever       = "approval required by policy, but AskForApproval is set to Never"
	refusedRules       = "approval required by policy rule, but AskForApproval::Granular.rules is false"
	refusedSandbox     = "approval required by policy, but AskForApproval::Granular.sandbox_approval is false"
	refusedElicitation = "approval required by policy, but AskForApproval::Granular.mcp_elicitations is false"
	refusedPermissions = "approval required by policy, but AskForApproval::Granular.request_permissions is false"
	rejectedPattern    = "`%s` rejected: %s"
)

// Canonical is a command line without what makes no difference to what it does, for comparing.
func Canonical(argv []string) []string { return command.Canonical(argv) }

// Script is a command line as a shell reads it: the script that a shell is given, or the words.
func Script(argv []string) string {
	if command.Lower(argv).Shell != "" {
		return argv[len(argv)-1]
	}
	return command.Join(argv)
}

// decideExec decides on a command: first what rules hold back anywhere in it, then what they allow as a whole, then by what kind of
// command it is.
func (r Request) decideExec(e contract.ExecEffect) Decision {
	if len(e.Argv) == 0 {
		return r.doubtful("there is no command to decide on")
	}
	if strings.Contains(strings.Join(e.Argv, ""), "\x00") {
		// What stands before it may be forbidden and can't be read; and no system starts a program so.
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, command.Join(e.Argv), "the command has a zero byte")}
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
		return Decision{Verdict: Ask, Reason: "it has a dangerous command: " + strings.Join(c.Argv(), " ")}
	}
	if wide.Err != nil && (r.Approval != Never || r.Sandbox == FullAccess) {
		return r.doubtful("the command can't be read: " + wide.Err.Error())
	}
	d := r.byKind(low, e)
	if d.Verdict == Ask && !r.additional() { // a rule would let it run without its sandbox
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
			d.Hint = "to let it run outside of the sandbox without a question, add " + strings.Join(lines, " and ") + " to your rules"
		}
	}
	return d
}

// doubtful asks where that is possible, and refuses where not.
func (r Request) doubtful(reason string) Decision {
	if r.Approval == Never {
		return Decision{Verdict: Forbid, Reason: reason + "; " + refusedNever}
	}
	return Decision{Verdict: Ask, Reason: reason}
}

// byKind is the last row of rules: nothing more is known than whether the command only looks, and what holds it.
func (r Request) byKind(low command.Lowered, e contract.ExecEffect) Decision {
	switch r.Approval {
	case Untrusted:
		if r.looks(low, e) {
			return Decision{Verdict: Run, Reason: "it only looks"}
		}
		return r.decideOther()
	case OnRequest, Granular:
		return r.decideOther()
	}
	return Decision{Verdict: Run, Reason: r.contained()}
}

// looks reports whether a command only looks. Without a sandbox git does not count: what a repository configures, it runs.
func (r Request) looks(low command.Lowered, e contract.ExecEffect) bool {
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

// left are the commands that no rule allows, and short the rules that would, were it not for the words behind theirs. A rule allows only
// what is plain: in a script with anything else no command is.
func (r Request) left(low command.Lowered, cwd string) (left []command.Command, allowed, short []*rules.Prefix) {
	for _, c := range low.Commands {
		rule, further := r.allows(c, cwd)
		switch {
		case !low.Plain || low.Shell != "" && !r.trusted(low.Shell, cwd):
			left = append(left, c)
		case rule == nil:
			left = append(left, c)
			if further != nil {
				short = append(short, further) // as many times as commands begin like it
			}
		default:
			allowed = append(allowed, rule)
		}
	}
	return left, allowed, short
}

// allows finds a rule that allows a command; nil: none does. further is one that allows its first words alone.
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
		// A rule for a name is for the program that the name usually means, wherever else one of that name may lie.
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

// dangerous looks for destruction in what no rule allows.
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

// restrict looks for what rules ask about or forbid, in every command that stands anywhere. What may be forbidden and can't be known
// before it runs is asked about.
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
		return r.byRule(fmt.Sprintf("it can't be known before it runs whether the rule for %s applies", pattern(may)), []*rules.Prefix{may})
	case x.Err != nil:
		return r.byRule("rules forbid commands or ask about them, and this one can't be read: "+x.Err.Error(), nil)
	case len(x.Unresolved) > 0:
		return r.byRule("rules forbid commands or ask about them, and what this one starts can't be known before it runs: "+x.Unresolved[0], nil)
	}
	return Decision{Verdict: Run}
}

// byRule is a question that rules demand.
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

// candidates are the rules that a command may fall under by its name, wherever the program lies.
func (r Request) candidates(c command.Command) []*rules.Prefix {
	if !c[0].Fixed {
		return nil // reported as not resolved
	}
	out := r.Rules.Restrictive(c[0].Text)
	if name := command.Name(c[0].Text); name != c[0].Text {
		out = append(out, r.Rules.Restrictive(name)...)
	}
	return out
}

// begins compares a command with a pattern whose first word it has. maybe: it depends on words that are not known.
func begins(c command.Command, pattern [][]string) (yes, maybe bool) {
	for i := 1; i < len(pattern); i++ {
		switch {
		case i >= len(c):
			return false, false
		case !c[i].Fixed:
			return false, true
		case !contains(pattern[i], c[i].Text):
			return false, false
		}
	}
	return true, false
}

func contains(alternatives []string, word string) bool {
	for _, a := range alternatives {
		if a == word {
			return true
		}
	}
	return false
}

// stricter is the one of two rules that counts: the stricter, then the longer.
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

// pattern writes the words of a rule, alternatives with a bar between them.
func pattern(p *rules.Prefix) string {
	words := make([]string, len(p.Pattern))
	for i, alternatives := range p.Pattern {
		words[i] = strings.Join(alternatives, "|")
	}
	return strings.Join(words, " ")
}

// decideInput decides on what is typed into a session: into a shell it is a script, and may be forbidden like one. It goes on with
// what stands there already.
func (r Request) decideInput(e contract.SessionInputEffect) Decision {
	scripts, sure := r.Typed.scripts(e.Text)
	d := Decision{Verdict: Run, Reason: r.contained()}
	for _, s := range scripts {
		if next := r.decideTyped(s); next.Verdict > d.Verdict {
			d = next
		}
	}
	if !sure && r.Rules.Restricts() {
		if next := r.byRule("rules forbid commands or ask about them, and what is typed has keys that move, complete or recall; type the command as it is to be run", nil); next.Verdict > d.Verdict {
			d = next
		}
	}
	if d.Verdict != Run {
		return d
	}
	// What was approved is the program, not all that it can be told to do.
	if r.Outside && r.Sandbox != FullAccess {
		if r.Approval == Never || r.Approval == Granular && !r.Questions.Sandbox {
			return Decision{Verdict: Forbid, Reason: "rejected: the session runs outside of the sandbox, and the approval policy asks nobody about what is typed into it"}
		}
		return Decision{Verdict: Ask, Reason: "the session runs outside of the sandbox, which does not hold what is typed into it"}
	}
	return d
}

// decideTyped decides on one way to read it.
func (r Request) decideTyped(text string) Decision {
	x := command.ExtractScript(strings.ReplaceAll(text, "\x00", "")) // as shells read it
	if d := r.restrict(x, []string{text}); d.Verdict != Run {
		return d
	}
	if c, why := x.Dangerous(); why != "" {
		if r.Approval == Never {
			return Decision{Verdict: Forbid, Reason: fmt.Sprintf(rejectedPattern, strings.TrimSpace(text), why)}
		}
		return Decision{Verdict: Ask, Reason: "what is typed has a dangerous command: " + strings.Join(c.Argv(), " ")}
	}
	return Decision{Verdict: Run}
}
