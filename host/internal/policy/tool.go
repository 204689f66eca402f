package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/host/internal/policy/rules"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Mode is the user's setting for a tool.
type Mode string

// The modes.
const (
	Auto    Mode = "auto"    // ask depending on the tool's annotations
	Prompt  Mode = "prompt"  // always ask
	Writes  Mode = "writes"  // ask unless the call only reads
	Approve Mode = "approve" // never ask
	Deny    Mode = "deny"    // refuse
)

// Annotations are what a tool declares about its calls. nil is unknown, for which the worse is assumed.
type Annotations struct {
	ReadOnly    *bool // it changes nothing
	Destructive *bool // it may destroy something
	OpenWorld   *bool // it has effects that the sandbox does not confine
}

// Asks reports whether a call needs an approval. It is the table of codex 0.169 for tools that are not its own.
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
	case Writes:
		return !is(a.ReadOnly, false)
	}
	switch {
	case is(a.Destructive, false):
		return true
	case is(a.ReadOnly, false):
		return false
	}
	return is(a.Destructive, true) || is(a.OpenWorld, true)
}

// Tool is a tool of a plugin or an MCP server. Its calls are decided on by the user's settings and by what it declares.
type Tool struct {
	Plugin     string // label of its block
	Name       string
	Names      []string // with and without its namespace
	Descriptor string   // digest
	Mode       Mode
	Set        string // position of the user's setting of the mode; empty: there is none
	// Online says that the network is granted to the plugin, or to all calls of the thread. Otherwise Hosts are what the plugin may reach.
	Online bool
	Hosts  []hosts.Pattern
	// ByHost says that the tool acts only through the host, which decides on each step.
	ByHost bool
	// BuiltIn says that the plugin comes with gantry, so that only the mode is relevant.
	BuiltIn bool
}

// Reaches reports whether the plugin may reach a host without an approval.
func (t *Tool) Reaches(e contract.NetworkEffect) bool {
	return t.Online || slices.ContainsFunc(t.Hosts, func(p hosts.Pattern) bool {
		return e.Port <= math.MaxUint16 && p.Match(hosts.Normalize(e.Host), uint16(e.Port))
	})
}

// asks returns the mode that requires an approval of the call; "": none does. An action of a service is decided on by the mode that
// the plugin's configuration has for it, unless the user has set one for the tool, and by what the service says of it. Only a plugin
// that comes with gantry may report a mode that asks less. A rule that allows the action answers the question that Auto asks; by is
// such a rule.
func (r Request) asks(mode Mode) (asked Mode, by *rules.Tool) {
	for _, e := range r.Effects {
		s, ok := e.(contract.ServiceEffect)
		if !ok {
			continue
		}
		m := mode
		if mode == Auto && r.Tool.Set == "" && s.Approval != "" && (r.Tool.BuiltIn || s.Approval != string(Approve)) {
			m = Mode(s.Approval)
		}
		if !m.Asks(Annotations{s.ReadOnly, s.Destructive, s.OpenWorld}) {
			continue
		}
		rule := r.actionRule(s)
		if m != Auto || rule == nil || r.RulesErr != nil { // a rule that can't be read may forbid it
			return m, nil
		}
		by = rule
	}
	if !r.onlyServices() && mode.Asks(r.annotations()) {
		return mode, nil
	}
	return "", by
}

// actionRule returns the strictest rule for an action of a service; nil: there is none.
func (r Request) actionRule(s contract.ServiceEffect) *rules.Tool {
	return r.Rules.Action(rules.Action{
		Plugin: r.Tool.Plugin, BuiltIn: r.Tool.BuiltIn, Descriptor: r.Tool.Descriptor, Service: s.Service, Name: s.Action,
	})
}

// onlyServices reports whether all that the call does is to request actions of services.
func (r Request) onlyServices() bool {
	return len(r.Effects) > 0 && !slices.ContainsFunc(r.Effects, func(e contract.Effect) bool {
		_, ok := e.(contract.ServiceEffect)
		return !ok
	})
}

// service describes the first action of a service; "": the call requests none.
func (r Request) service() string {
	for _, e := range r.Effects {
		if s, ok := e.(contract.ServiceEffect); ok {
			return fmt.Sprintf("it asks the service %q for %q", s.Service, s.Action)
		}
	}
	return ""
}

// beyond describes an effect that the sandbox does not confine; "": there is none. Undeclared effects may be anything. Actions of
// services are not among them, see [Request.asks].
func (r Request) beyond() string {
	for _, e := range r.Effects {
		switch e := e.(type) {
		case contract.OtherEffect:
			return e.Label
		case contract.BrowserEffect:
			return "it acts on " + e.Origin
		case contract.NetworkEffect:
			if !r.Tool.Reaches(e) {
				return "it reaches " + e.Host
			}
		}
	}
	if len(r.Effects) == 0 && !r.Tool.ByHost {
		return "it does not declare its effects"
	}
	return ""
}

// annotations derives the annotations of a call from its effects.
func (r Request) annotations() Annotations {
	a := Annotations{ReadOnly: &r.ReadOnly}
	if r.Tool.BuiltIn || r.beyond() == "" {
		no := false
		a.Destructive, a.OpenWorld = &no, &no
	}
	return a
}

// mode returns the stricter of the user's setting and the rules for the tool and for the actions of services that the call requests. A
// rule that allows the tool answers the question that Auto asks.
func (r Request) mode() (Mode, *rules.Tool) {
	rule := r.Rules.Tool(r.Tool.Plugin, r.Tool.Descriptor, r.Tool.Names...)
	for _, e := range r.Effects {
		s, ok := e.(contract.ServiceEffect)
		if !ok {
			continue
		}
		if of := r.actionRule(s); of != nil && of.Decision > rules.Allow && (rule == nil || of.Decision > rule.Decision) {
			rule = of
		}
	}
	switch {
	case rule == nil:
		return r.Tool.Mode, nil
	case rule.Decision == rules.Forbidden, r.Tool.Mode == Deny:
		return Deny, rule
	case rule.Decision == rules.Prompt, r.Tool.Mode == Prompt:
		return Prompt, rule
	case r.RulesErr != nil: // a rule that can't be read may forbid it
		return r.Tool.Mode, nil
	}
	return Approve, rule
}

// Setting returns the setting that lets the tool be called without an approval.
func (t *Tool) Setting() string {
	return fmt.Sprintf(`plugin %q { tool %q { approval = "approve" } } in gantry.hcl, or -c plugin.%s.tool.%s.approval=approve`, t.Plugin, t.Name, quotedLabel(t.Plugin), t.Name)
}

func quotedLabel(s string) string {
	if strings.Contains(s, ".") {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// decideTool decides on a call by its tool; single effects are decided on separately.
func (r Request) decideTool() Decision {
	mode, rule := r.mode()
	by := r.Tool.Set
	if rule != nil {
		by = rule.Where()
	}
	switch mode {
	case Deny:
		why := ""
		if rule != nil && rule.Justification != "" {
			why = ": " + rule.Justification
		}
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("the user's settings refuse the tool %s (%s)%s", r.Tool.Name, by, why)}
	case Approve:
		return Decision{Verdict: Run, Reason: fmt.Sprintf("the user has set the tool %s to run without an approval (%s)", r.Tool.Name, by), approved: true}
	}
	set := mode != Auto
	mode, allowed := r.asks(mode)
	switch {
	case mode == "" && allowed != nil:
		return Decision{Verdict: Run, Reason: fmt.Sprintf("%s, and a rule allows that (%s)", r.service(), allowed.Where())}
	case mode == "":
		return Decision{Verdict: Run, Reason: r.confined()}
	}
	why := "it may act beyond the sandbox: " + cmp.Or(r.beyond(), r.service())
	switch {
	case mode == Auto:
	case set:
		why = fmt.Sprintf("the settings require an approval of each call of %s (%s)", r.Tool.Name, by)
	default:
		why = fmt.Sprintf("%s, and the configuration of the plugin %q requires an approval of that", r.service(), r.Tool.Plugin)
	}
	if rule != nil && rule.Justification != "" {
		why += ": " + rule.Justification
	}
	hint := "to let it run without an approval: " + r.Tool.Setting()
	switch {
	case r.Approval == Never && r.Sandbox == FullAccess && mode == Auto:
		return Decision{Verdict: Run, Reason: r.contained()}
	case r.Approval == Never:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("%s (%s); %s", refusedNever, why, hint)}
	case r.Approval == Granular && !r.Questions.Elicitation:
		return Decision{Verdict: Forbid, Reason: fmt.Sprintf("%s (%s); %s", refusedElicitation, why, hint)}
	}
	return Decision{Verdict: Ask, Reason: why, Tool: mode == Auto, Once: mode != Auto, Hint: hint}
}

// confined is the reason to run a call of a tool without an approval.
func (r Request) confined() string {
	if s := r.service(); s != "" {
		return s + ", and neither what the service says of that nor a setting requires an approval"
	}
	if r.ReadOnly {
		return "it only reads"
	}
	if r.Sandbox == FullAccess || r.Tool.BuiltIn {
		return r.contained()
	}
	for _, e := range r.Effects {
		switch e.(type) {
		case contract.NetworkEffect:
			return "it is granted the network"
		case contract.WriteEffect:
			return "it writes only where calls may write"
		case contract.ReadEffect:
			return "it only reads"
		}
	}
	if len(r.Effects) == 0 {
		return "it acts only through gantry, which decides on each step"
	}
	return r.contained()
}

// decideRest decides on the effects of a call other than its commands.
func (r Request) decideRest() Decision {
	d := r.decideOther()
	if r.Tool == nil {
		return d
	}
	t := r.decideTool()
	switch {
	case r.onlyServices() && !r.escalates():
		return t // by its annotations under every policy that has questions, like codex 0.169
	case t.Verdict > d.Verdict:
		return t
	case t.Verdict == d.Verdict && !r.escalates(), t.approved && !r.escalates():
		return t
	}
	return d
}
