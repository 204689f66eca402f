package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// New returns a question as it is shown. item is the item that it is about; nil: none is known.
func New(q client.Question, item *client.Item) *Overlay {
	o := &Overlay{Question: q, values: map[string]any{}}
	switch p := q.Params.(type) {
	case *protocol.CommandExecutionRequestApprovalParams:
		o.command(p)
	case *protocol.FileChangeRequestApprovalParams:
		o.changes(p, item)
	case *protocol.PermissionsRequestApprovalParams:
		o.permissions(p)
	case *protocol.ToolRequestUserInputParams:
		o.input(p)
	case *protocol.MCPServerElicitationRequestParams:
		o.elicitation(p)
	}
	if len(o.fields) > 0 {
		o.typing = len(o.fields[0].choices) == 0
	}
	return o
}

// say adds what is said in the question; empty text is left out.
func (o *Overlay) say(label, text string) {
	if text == "" {
		return
	}
	if label == "" {
		o.body = append(o.body, term.Text(term.Plain(text), theme.Text))
		return
	}
	o.body = append(o.body, term.Line{{Text: label + " ", Style: theme.Dim}, {Text: term.Plain(text), Style: theme.Text}})
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (o *Overlay) command(p *protocol.CommandExecutionRequestApprovalParams) {
	o.title = "May this command run?"
	switch {
	case p.Kind == protocol.ApproveWriteStdin:
		o.title = "May this be typed into a running command?"
	case p.NetworkApprovalContext != nil:
		o.title = "May it connect?"
		o.say("to", string(p.NetworkApprovalContext.Protocol)+" "+p.NetworkApprovalContext.Host)
	}
	if p.Command != nil {
		for i, line := range strings.Split(*p.Command, "\n") {
			sign := "  "
			if i == 0 {
				sign = "$ "
			}
			o.body = append(o.body, term.Line{{Text: sign, Style: theme.Dim}, {Text: term.Plain(line), Style: theme.Strong}})
		}
	}
	o.say("in", deref(p.Cwd))
	o.say("because", deref(p.Reason))
	if p.AdditionalPermissions != nil {
		o.profile(*p.AdditionalPermissions)
	}
	decisions := p.AvailableDecisions
	if len(decisions) == 0 {
		decisions = []protocol.CommandExecutionApprovalDecision{{Kind: protocol.DecisionAccept}, {Kind: protocol.DecisionDecline}}
	}
	answer := func(d protocol.CommandExecutionApprovalDecision) any {
		return protocol.CommandExecutionRequestApprovalResponse{Decision: d}
	}
	for _, d := range decisions {
		switch d.Kind {
		case protocol.DecisionAccept:
			o.add("y", "yes, this time", answer(d))
		case protocol.DecisionAcceptForSession:
			o.add("s", "yes, and don't ask again in this thread", answer(d))
		case protocol.DecisionAcceptWithAmendment:
			rule := deref(p.ProposedRule)
			if rule == "" && d.ExecpolicyAmendment != nil {
				rule = strings.Join(d.ExecpolicyAmendment.ExecpolicyAmendment, " ") + " …"
			}
			o.add("a", "yes, always: adds to your rules "+term.Plain(rule), answer(d))
		case protocol.DecisionApplyNetworkPolicy:
			if d.NetworkPolicyAmendment == nil {
				continue
			}
			a := d.NetworkPolicyAmendment.NetworkPolicyAmendment
			if a.Action == protocol.NetworkAllow {
				o.add("a", "yes, always: adds to your rules that "+term.Plain(a.Host)+" is allowed", answer(d))
			} else {
				o.add("d", "no, never: adds to your rules that "+term.Plain(a.Host)+" is refused", answer(d))
			}
		case protocol.DecisionDecline:
			o.add("n", "no, go on without it", answer(d))
		}
	}
	o.cancel = answer(protocol.CommandExecutionApprovalDecision{Kind: protocol.DecisionCancel})
}

func (o *Overlay) add(key, label string, value any) {
	o.choices = append(o.choices, choice{key, label, value})
}

func (o *Overlay) changes(p *protocol.FileChangeRequestApprovalParams, item *client.Item) {
	o.title = "May these files be changed?"
	o.say("because", deref(p.Reason))
	if p.GrantRoot != nil {
		o.say("this makes writable", *p.GrantRoot)
	}
	if item != nil {
		if b, ok := item.Body.(protocol.FileChangeItem); ok {
			o.diff = func(width int) []term.Line {
				var out []term.Line
				for _, c := range b.Changes {
					out = append(out, term.Wrap([]term.Span{{Text: term.Plain(c.Path), Style: theme.Strong}}, width)...)
					out = append(out, transcript.DiffLines(c, width)...)
				}
				return out
			}
		}
	}
	answer := func(d protocol.FileChangeApprovalDecision) any {
		return protocol.FileChangeRequestApprovalResponse{Decision: d}
	}
	o.add("y", "yes, this time", answer(protocol.FileChangeAccept))
	o.add("s", "yes, and don't ask again in this thread", answer(protocol.FileChangeAcceptForSession))
	o.add("n", "no, go on without it", answer(protocol.FileChangeDecline))
	o.cancel = answer(protocol.FileChangeCancel)
}

func (o *Overlay) permissions(p *protocol.PermissionsRequestApprovalParams) {
	o.title = "May the agent have these permissions?"
	o.profile(p.Permissions)
	o.say("in", p.Cwd)
	o.say("because", deref(p.Reason))
	answer := func(granted protocol.PermissionProfile, scope protocol.PermissionGrantScope) any {
		return protocol.PermissionsRequestApprovalResponse{Permissions: granted, Scope: &scope}
	}
	o.add("y", "yes, for this turn", answer(p.Permissions, protocol.GrantTurn))
	o.add("s", "yes, for this thread", answer(p.Permissions, protocol.GrantSession))
	no := answer(protocol.PermissionProfile{}, protocol.GrantTurn)
	o.add("n", "no, go on without them", no)
	o.cancel = no
}

// profile says what a profile permits.
func (o *Overlay) profile(p protocol.PermissionProfile) {
	if p.Network != nil && p.Network.Enabled != nil && *p.Network.Enabled {
		o.say("", "access to the network")
	}
	if f := p.FileSystem; f != nil {
		for _, path := range f.Read {
			o.say("read", path)
		}
		for _, path := range f.Write {
			o.say("write", path)
		}
		for _, e := range f.Entries {
			b, err := json.Marshal(e.Path)
			if err != nil {
				continue
			}
			o.say(string(e.Access), string(b))
		}
	}
}

func (o *Overlay) input(p *protocol.ToolRequestUserInputParams) {
	o.title = "The agent asks"
	for _, q := range p.Questions {
		f := field{name: q.ID, title: term.Plain(q.Question), secret: q.IsSecret, other: q.IsOther}
		f.choices = numbered(len(q.Options), func(i int) (string, any) {
			label := term.Plain(q.Options[i].Label)
			if d := q.Options[i].Description; d != "" {
				label += " — " + term.Plain(d)
			}
			return label, q.Options[i].Label
		})
		if len(q.Options) > len(f.choices) {
			f.other, f.help = true, "more answers: "+term.Plain(optionLabels(q.Options[len(f.choices):]))
		}
		o.fields = append(o.fields, f)
	}
	answers := func(values map[string]any) any {
		out := protocol.ToolRequestUserInputResponse{Answers: map[string]protocol.ToolRequestUserInputAnswer{}}
		for name, v := range values {
			if s, ok := v.(string); ok {
				out.Answers[name] = protocol.ToolRequestUserInputAnswer{Answers: []string{s}}
			}
		}
		return out
	}
	o.result = answers
	o.cancel = answers(nil)
	if len(o.fields) == 0 {
		o.add("y", "go on", answers(nil))
	}
}

func optionLabels(options []protocol.ToolRequestUserInputOption) string {
	var out []string
	for _, o := range options {
		out = append(out, o.Label)
	}
	return strings.Join(out, ", ")
}

func (o *Overlay) elicitation(p *protocol.MCPServerElicitationRequestParams) {
	answer := func(a protocol.MCPServerElicitationAction, content json.RawMessage) any {
		return protocol.MCPServerElicitationRequestResponse{Action: a, Content: content}
	}
	o.cancel = answer(protocol.ElicitationCancel, nil)
	if p.Body == nil {
		o.title = "A server asks something that is not known here"
		o.add("n", "refuse", answer(protocol.ElicitationDecline, nil))
		return
	}
	h := p.Body.Elicitation()
	o.title = "The server " + term.Plain(h.ServerName) + " asks"
	o.say("", h.Message)
	no := answer(protocol.ElicitationDecline, nil)
	switch b := p.Body.(type) {
	case protocol.URLElicitation:
		o.say("open in a browser:", b.URL)
		o.add("y", "I have done that", answer(protocol.ElicitationAccept, nil))
		o.add("n", "no", no)
	case protocol.FormElicitation:
		o.fields = formFields(b.RequestedSchema)
		o.result = func(values map[string]any) any {
			content, err := json.Marshal(values)
			if err != nil {
				return no
			}
			return answer(protocol.ElicitationAccept, content)
		}
		if len(o.fields) == 0 {
			o.add("y", "yes", answer(protocol.ElicitationAccept, json.RawMessage("{}")))
			o.add("n", "no", no)
		}
	}
}

// property is a value of a form, as a JSON Schema describes it.
type property struct {
	Type, Title, Description string
	Enum                     []string
	EnumNames                []string
	OneOf                    []struct{ Const, Title string }
}

// formFields returns the fields of a form, in the order of their names, required ones first. A schema that can't be read has none.
func formFields(schema json.RawMessage) []field {
	var s struct {
		Properties map[string]property
		Required   []string
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		return order(slices.Contains(s.Required, a)) - order(slices.Contains(s.Required, b))
	})
	var out []field
	for _, name := range names {
		p := s.Properties[name]
		f := field{name: name, title: term.Plain(name), help: term.Plain(p.Description), optional: !slices.Contains(s.Required, name)}
		if p.Title != "" {
			f.title = term.Plain(p.Title)
		}
		for i, e := range p.Enum {
			o := struct{ Const, Title string }{Const: e, Title: e}
			if i < len(p.EnumNames) {
				o.Title = p.EnumNames[i]
			}
			p.OneOf = append(p.OneOf, o)
		}
		switch {
		case len(p.OneOf) > 0:
			f.choices = numbered(len(p.OneOf), func(i int) (string, any) { return term.Plain(p.OneOf[i].Title), p.OneOf[i].Const })
		case p.Type == "boolean":
			f.choices = []choice{{"y", "yes", true}, {"n", "no", false}}
		case p.Type == "integer":
			f.parse = func(text string) (any, error) { return number(strconv.ParseInt(text, 10, 64)) }
		case p.Type == "number":
			f.parse = func(text string) (any, error) { return number(strconv.ParseFloat(text, 64)) }
		}
		out = append(out, f)
	}
	return out
}

func order(required bool) int {
	if required {
		return 0
	}
	return 1
}

func number[T int64 | float64](n T, err error) (any, error) {
	if err != nil {
		return nil, errors.New("a number is required")
	}
	if _, err := json.Marshal(n); err != nil {
		return nil, fmt.Errorf("not a number for a form: %v", n)
	}
	return n, nil
}
