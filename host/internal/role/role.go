// Package role knows the roles that agents can have, and the bounds that come with them.
//
// It owns: where roles are defined and which definition applies, the formats of role files, and how bounds are combined. It must not know:
// which agents there are, how bounds are enforced.
//
// Start with [Load] and [Meet].
package role

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Default is the role of an agent whose spawn names none.
const Default = "default"

// Role is what an agent is for, and what it may do at most.
type Role struct {
	Name, Description string
	Instructions      string   // empty: none
	Model, Effort     string   // empty: not set
	Nicknames         []string // empty: the built-in ones
	Bounds            event.Bounds
	Budget            event.Allowance
	Source            string   // a file, or what else defines it, for people
	Notes             []string // what in a definition has no effect here, for people
	Problem           error    // why no agent can have the role; nil: it can be used
}

// Sources are the definitions of roles.
type Sources struct {
	Blocks []*config.Role
	// Files are the role files, in sets of one folder each. A role in an earlier set takes precedence.
	Files [][]config.RoleFile
}

// Set is the roles that agents can have. It is immutable.
type Set struct{ roles []Role }

// Load combines the definitions of roles. What the configuration leaves out is taken from the next definition of the same name: first those
// in files, then the built-in one.
func Load(s Sources) Set {
	var out Set
	for _, b := range s.Blocks {
		out.add(ofBlock(b))
	}
	for _, files := range s.Files {
		seen := map[string]string{}
		for _, f := range files {
			r := parseFile(f)
			if first, twice := seen[r.Name]; twice {
				r = Role{Name: r.Name, Notes: []string{fmt.Sprintf("%s: left out, because %s defines the role %q", f.Path, first, r.Name)}}
			} else {
				seen[r.Name] = f.Path
			}
			out.add(r)
		}
	}
	for _, r := range builtIn() {
		out.add(r)
	}
	for i := range out.roles {
		if r := &out.roles[i]; r.Problem == nil && r.Description == "" {
			r.Problem = fmt.Errorf("role %q has no description", r.Name)
		}
	}
	return out
}

// add adds a role, or completes the one of the same name.
func (s *Set) add(r Role) {
	i := slices.IndexFunc(s.roles, func(o Role) bool { return o.Name == r.Name })
	if i < 0 {
		s.roles = append(s.roles, r)
		return
	}
	s.roles[i] = s.roles[i].over(r)
}

// over completes a role with what a definition of lower precedence has. Only the instructions and the model are replaced as a whole: an
// effort is for the model that it was chosen with.
func (r Role) over(low Role) Role {
	r.Notes = slices.Concat(r.Notes, low.Notes)
	if r.Problem != nil || low.Problem != nil { // what can't be used is not replaced by something else
		return r
	}
	r.Description, r.Instructions = cmp.Or(r.Description, low.Description), cmp.Or(r.Instructions, low.Instructions)
	if r.Model == "" {
		r.Model, r.Effort = low.Model, cmp.Or(r.Effort, low.Effort)
	}
	if len(r.Nicknames) == 0 {
		r.Nicknames = low.Nicknames
	}
	r.Bounds = complete(r.Bounds, low.Bounds)
	r.Budget.Tokens, r.Budget.USD = cmp.Or(r.Budget.Tokens, low.Budget.Tokens), cmp.Or(r.Budget.USD, low.Budget.USD)
	r.Source = cmp.Or(r.Source, low.Source)
	return r
}

// complete sets the bounds that a definition leaves out.
func complete(b, low event.Bounds) event.Bounds {
	b.Sandbox, b.Samplings, b.NoNetwork = cmp.Or(b.Sandbox, low.Sandbox), cmp.Or(b.Samplings, low.Samplings), b.NoNetwork || low.NoNetwork
	fill := func(p *[]string, low []string) {
		if len(*p) == 0 {
			*p = low
		}
	}
	fill(&b.DenyRead, low.DenyRead)
	fill(&b.DenyWrite, low.DenyWrite)
	fill(&b.Without, low.Without)
	if len(b.Tools) == 0 {
		b.Tools = low.Tools
	}
	return normal(b)
}

// All lists the roles in the order of precedence.
func (s Set) All() []Role { return s.roles }

// Find returns a role that an agent can have. Its error is for the model.
func (s Set) Find(name string) (Role, error) {
	var names []string
	for _, r := range s.roles {
		switch {
		case r.Name != name && r.Problem == nil:
			names = append(names, r.Name)
		case r.Name == name && r.Problem != nil:
			return Role{}, fmt.Errorf("agent_type %q can't be used: %w", name, r.Problem)
		case r.Name == name:
			return r, nil
		}
	}
	return Role{}, fmt.Errorf("unknown agent_type %q; there are %s", name, strings.Join(names, ", "))
}

// maxDescription bounds what models read about one role, in bytes.
const maxDescription = 600

// Describe lists the roles for models, with the settings that a call can't widen.
func (s Set) Describe() string {
	var b strings.Builder
	for _, r := range s.roles {
		if r.Problem != nil {
			continue
		}
		text := strings.Join(strings.Fields(r.Description), " ")
		if len(text) > maxDescription {
			text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
		}
		fmt.Fprintf(&b, "\n- %s: %s", r.Name, text)
		if sets := r.Summary(); len(sets) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(sets, "; "))
		}
	}
	return b.String()
}

// Summary lists what a role sets, in words.
func (r Role) Summary() (out []string) {
	add := func(what, value string) {
		if value != "" {
			out = append(out, what+" "+value)
		}
	}
	add("model", r.Model)
	add("effort", r.Effort)
	add("sandbox", r.Bounds.Sandbox)
	if r.Bounds.NoNetwork {
		out = append(out, "no network")
	}
	for _, list := range r.Bounds.Tools {
		add("tools", strings.Join(list, ", "))
	}
	add("without", strings.Join(r.Bounds.Without, ", "))
	if n := r.Bounds.Samplings; n > 0 {
		out = append(out, fmt.Sprintf("at most %d requests a turn", n))
	}
	if n := r.Budget.Tokens; n > 0 {
		out = append(out, fmt.Sprintf("budget %d tokens", n))
	}
	if usd := r.Budget.USD; usd > 0 {
		out = append(out, fmt.Sprintf("budget $%g", usd))
	}
	return out
}

func ofBlock(b *config.Role) Role {
	r := Role{
		Name: b.Label, Description: b.Description, Instructions: b.Instructions, Model: b.Model, Effort: b.Reasoning, Nicknames: b.Nicknames, Source: b.Range.String(),
		Budget: event.Allowance{Tokens: b.Budget.Tokens, USD: b.Budget.USD},
		Bounds: event.Bounds{
			Sandbox: b.Sandbox.Mode, NoNetwork: b.Sandbox.NoNetwork, DenyRead: b.Sandbox.DenyRead, DenyWrite: b.Sandbox.DenyWrite,
			Without: b.Without, Samplings: int(b.Samplings),
		},
	}
	if b.Tools != nil {
		r.Bounds.Tools = [][]string{b.Tools}
	}
	r.Bounds = normal(r.Bounds)
	return r
}

const builtInSource = "built-in"

func builtIn() []Role {
	return []Role{
		{Name: Default, Description: "An agent for any task.", Source: builtInSource},
		{
			Name: "explorer", Description: "Answers a question about the code or the machine by looking, and changes nothing. Several can look at different places at once.",
			Instructions: "You find things out. Look as far as the question needs, change nothing, and answer with what you have found and where: files with their lines. " +
				"Say what you have not looked at.",
			Bounds: event.Bounds{Sandbox: readOnly}, Source: builtInSource,
		},
		{
			Name: "worker", Description: "Carries out a part of the work, such as an implementation or a fix, in files that are assigned to it.",
			Instructions: "You carry out one part of a larger piece of work. Others change files in the same folder at the same time: stay within the files that you were given, " +
				"and don't revert what you did not write. Check what you have done, and report which files you have changed.",
			Source: builtInSource,
		},
	}
}
