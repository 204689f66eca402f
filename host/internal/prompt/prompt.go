// Package prompt writes what the model is told beside what users say: base instructions, and its surroundings section by
// section.
//
// It owns: the texts, their order, and which of them must be restated because they changed. It must not know: how a
// request is sent, which provider or tools there are.
//
// Start with [Base] and [Context].
package prompt

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"maps"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/llm"
)

//go:embed base.md
var base string

// Base is the text that opens every request of a thread, where nobody has set another. It is fixed for the thread's life.
func Base() string { return base }

// State is all that a model must know of its surroundings.
type State struct {
	Base         string // the thread's instructions, which open every request
	Instructions string // that the model goes by: Base, unless it has its own
	Permissions  event.Permissions
	Plugins      string // fixed instructions of plugins, joined
	Agents       Agents
	Environment  event.Environment
	Contexts     map[string]map[string]string // what plugins have to say now, by plugin and key
	External     map[string]string            // what clients said beside their users' words, by key
}

// Agents are the instructions that people keep in files for agents.
type Agents struct {
	Dir  string // the folder that they are for
	Text string // empty: there are none
}

// Reference is what a model knows that was told s.
func (s State) Reference() event.Reference {
	r := event.Reference{
		Instructions: digest(s.Instructions), Permissions: s.Permissions, Plugins: digest(s.Plugins), Environment: s.Environment,
		External: maps.Clone(s.External),
	}
	if s.Agents.Text != "" {
		r.Agents = event.Agents{Dir: s.Agents.Dir, Digest: digest(s.Agents.Text)}
	}
	for plugin, texts := range s.Contexts {
		for key, text := range texts {
			if r.Contexts == nil {
				r.Contexts = map[string]map[string]string{}
			}
			if r.Contexts[plugin] == nil {
				r.Contexts[plugin] = map[string]string{}
			}
			r.Contexts[plugin][key] = digest(text)
		}
	}
	return r
}

// digest tells texts apart; empty for none.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Context tells the model what it must know. last is what it was told before: only what differs is said again, and earlier
// messages are never rewritten, so that the prefix of the conversation stays the same. nil: nothing; all is said.
//
// What the host says is a system message, what others say is a user's: the files of people, and what plugins report. Each
// section is a part of its own, in a fixed order.
func Context(last *event.Reference, s State) []llm.Message {
	first := last == nil
	if first {
		// The model has the base instructions from the request itself.
		last = &event.Reference{Instructions: digest(s.Base)}
	}
	now := s.Reference()
	var out []llm.Message
	say := func(role llm.Role, texts ...string) {
		m := llm.Message{Role: role}
		for _, t := range texts {
			if t != "" {
				m.Parts = append(m.Parts, &llm.Text{Text: t})
			}
		}
		if len(m.Parts) > 0 {
			out = append(out, m)
		}
	}
	if last.Instructions != now.Instructions {
		say(llm.RoleSystem, modelSwitch(s.Instructions))
	}
	var rules, instructions, agents string
	if first || !same(last.Permissions, now.Permissions) {
		rules = permissions(s.Permissions)
	}
	if last.Plugins != now.Plugins {
		instructions = plugins(s.Plugins)
	}
	if last.Agents != now.Agents {
		agents = agentsFiles(last.Agents, s.Agents)
	}
	say(llm.RoleSystem, rules, instructions)
	say(llm.RoleUser, agents, environment(last.Environment, now.Environment), contexts(*last, now, s.Contexts))
	say(llm.RoleUser, external(last.External, s.External)...)
	return out
}
