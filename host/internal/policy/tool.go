package policy

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Mode is what the user has set for a tool.
type Mode string

// The modes. Auto asks by what the tool says of itself, Prompt always, Approve never; Deny refuses.
const (
	Auto    Mode = "auto"
	Prompt  Mode = "prompt"
	Approve Mode = "approve"
	Deny    Mode = "deny"
)

// Annotations are what a tool says of its calls; nil is unknown, and what is unknown is taken for the worse.
type Annotations struct {
	ReadOnly    *bool // it changes nothing
	Destructive *bool // it may destroy something
	OpenWorld   *bool // it reaches what nothing here holds
}

// Asks is the table of codex 0.169 for tools that are not its own: whether a call needs a question.
func (m Mode) Asks(a Annotations) bool {
	is := func(b *bool, unknown bool) bool {
		if b == nil {
			return unknown
		}
		return *b
	}
	switch m {
	case Approve:
		return false
	case Prompt:
		return true
	}
	switch {
	case is(a.Destructive, false):
		return true
	case is(a.ReadOnly, false):
		return false
	}
	return is(a.Destructive, true) || is(a.OpenWorld, true)
}

// Tool is a tool whose calls are decided on by what the user has set for it, and by what it says of itself. Plugins and MCP servers
// have such tools; of those of built-in plugins only what the user has set counts.
type Tool struct {
	Plugin     string // the label of its block
	Name       string
	Names      []string // all that it goes by: with its namespace, too
	Descriptor string   // the digest of what it says about itself
	Mode       Mode
	Set        string // where the user has set the mode; empty: nowhere
	// Online says that the network is granted already: to the plugin, or to all calls of the thread.
	Online bool
	// ByHost says that all that a call does is done by the host, which decides on each step.
	ByHost bool
	// BuiltIn says that the plugin comes with gantry: only the mode counts.
	BuiltIn bool
}

// beyond finds an effect that nothing here holds; "": there is none. What a call does not say may be anything.
func (r Request) beyond() string {
	for _, e := range r.Effects {
		switch e := e.(type) {
		case contract.OtherEffect:
			return e.Label
		case contract.BrowserEffect:
			return "it acts on " + e.Origin
		case contract.NetworkEffect:
			if !r.Tool.Online {
				return "it reaches " + e.Host
			}
		}
	}
	if len(r.Effects) == 0 && !r.Tool.ByHost {
		return "it does not say what it does"
	}
	return ""
}

// annotations are those that follow from the effects of a call.
func (r Request) annotations() Annotations {
	a := Annotations{ReadOnly: &r.ReadOnly}
	if r.Tool.BuiltIn || r.beyond() == "" {
		held := false
		a.Destructive, a.OpenWorld = &held, &held
	}
	return a
}

// mode is the stricter of what is set and of what a rule says. A rule that allows is an answer to what Auto asks.
func (r Request) mode() (Mode, *rules.Tool) {
	rule := r.Rules.Tool(r.Tool.Plugin, r.Tool.Descriptor, r.Tool.Names...)
	switch {
	case rule == nil:
		return r.Tool.Mode, nil
	case rule.Decision == rules.Forbidden, r.Tool.Mode == Deny:
		return Deny, rule
	case rule.Decision == rules.Prompt, r.Tool.Mode == Prompt:
		return Prompt, rule
	case r.RulesErr != nil: // of which one may forbid it
		return r.Tool.Mode, nil
	}
	return Approve, rule
}

// Setting is the line that lets a tool be called without a question.
func (t *Tool) Setting() string {
	return fmt.Sprintf(`plugin %q { tool %q { approval = "approve" } } in gantry.hcl, or -c plugin.%s.tool.%s.approval=approve`, t.Plugin, t.Name, quotedLabel(t.Plugin), t.Name)
}

func quotedLabel(s string) string {
	if strings.Contains(s, ".") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// decideTool decides on a call by its tool. What single effects want beyond that is decided elsewhere.
func (r Request) decideTool() Decision {
	mode, rule := r.mode()
	by := r.Tool.Set
	if rule != nil {
		by = rule.Where()
	}
	switch mode {
	case Deny:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("the user's settings refuse the tool %s (%s)", r.Tool.Name, by)}
	case Approve:
		return Decision{Verdict: Run, Reason: fmt.Sprintf("the user has set the tool %s to run without a question (%s)", r.Tool.Name, by), approved: true}
	}
	if !mode.Asks(r.annotations()) {
		return Decision{Verdict: Run, Reason: r.held()}
	}
	why := "it may act beyond the sandbox: " + r.beyond()
	if mode == Prompt {
		why = fmt.Sprintf("the settings ask before each call of %s (%s)", r.Tool.Name, by)
	}
	hint := "to let it run without a question: " + r.Tool.Setting()
	switch {
	case r.Approval == Never && r.Sandbox == FullAccess && mode == Auto:
		return Decision{Verdict: Run, Reason: r.contained()}
	case r.Approval == Never:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("%s (%s); %s", refusedNever, why, hint)}
	case r.Approval == Granular && !r.Questions.Elicitation:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("%s (%s); %s", refusedElicitation, why, hint)}
	}
	return Decision{Verdict: Ask, Reason: why, Tool: mode == Auto, Once: mode == Prompt, Hint: hint}
}

// held is why a call of a tool runs without a question: who holds what it does.
func (r Request) held() string {
	if r.ReadOnly {
		return "it only reads"
	}
	if r.Sandbox == FullAccess || r.Tool.BuiltIn {
		return r.contained()
	}
	for _, e := range r.Effects {
		switch e.(type) {
		case contract.NetworkEffect:
			return "the network is granted to it already"
		case contract.WriteEffect:
			return "it writes where calls may write"
		case contract.ReadEffect:
			return "it reads"
		}
	}
	if len(r.Effects) == 0 {
		return "it acts through gantry alone, which decides on each step"
	}
	return r.contained()
}

// rest decides on what a call does beside its commands.
func (r Request) rest() Decision {
	d := r.decideOther()
	if r.Tool == nil {
		return d
	}
	t := r.decideTool()
	switch {
	case t.Verdict > d.Verdict:
		return t
	case t.Verdict == d.Verdict && !r.escalates(), t.approved && !r.escalates():
		return t
	}
	return d
}
