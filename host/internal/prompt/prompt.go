// Package prompt writes what the model is told beside what users say: base instructions and the facts of a turn.
//
// It owns: the texts, their order, and which of them must be restated because they changed. It must not know: how a
// request is sent, which provider or tools there are.
//
// Start with [Base] and [Context].
package prompt

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

//go:embed base.md
var base string

// Base is the text that opens every request of a thread. It is fixed for the thread's life.
func Base() string { return base }

// Facts are what the model must know of its surroundings. Comparable: what differs is restated.
type Facts struct {
	Cwd      string
	Shell    string
	Date     string // YYYY-MM-DD
	Timezone string
	Approval string
	Sandbox  string
	Plugins  string // fixed instructions of plugins, joined
	Contexts string // what plugins have to say now, joined
}

// Context renders facts for the model. last is what it was told before (nil: nothing): only what changed is said again,
// and earlier messages are never rewritten, so that the prefix of the conversation stays the same.
func Context(last *Facts, now Facts) []llm.Message {
	var out []llm.Message
	first := last == nil
	if first {
		last = &Facts{}
	}
	if first || last.Approval != now.Approval || last.Sandbox != now.Sandbox || last.Plugins != now.Plugins {
		parts := []llm.Part{&llm.Text{Text: permissions(now)}}
		if now.Plugins != "" && last.Plugins != now.Plugins {
			parts = append(parts, &llm.Text{Text: "<plugins_instructions>\n" + now.Plugins + "\n</plugins_instructions>"})
		}
		out = append(out, llm.Message{Role: llm.RoleSystem, Parts: parts})
	}
	if last.Contexts != now.Contexts {
		out = append(out, llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{&llm.Text{
			Text: "<plugins_context>\n" + now.Contexts + "\n</plugins_context>"}}})
	}
	if env := environment(*last, now); env != "" {
		out = append(out, llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: env}}})
	}
	return out
}

func permissions(f Facts) string {
	var b strings.Builder
	b.WriteString("<permissions instructions>\n")
	switch f.Sandbox {
	case "full-access":
		b.WriteString("Commands and file changes run without a sandbox: they can reach the whole machine and the network.\n")
	default:
		fmt.Fprintf(&b, "Commands and file changes run in the sandbox mode %q.\n", f.Sandbox)
	}
	switch f.Approval {
	case "never":
		b.WriteString("Nobody is asked for approval. What the rules refuse stays refused: find another way or report it.")
	case "untrusted":
		b.WriteString("The user is asked before everything that has an effect, so make few, clear calls and accept a refusal.")
	default:
		b.WriteString("The user is asked where a call wants more than its sandbox gives; justify such a call in one plain sentence.")
	}
	b.WriteString("\n</permissions instructions>")
	return b.String()
}

func environment(last, now Facts) string {
	var b strings.Builder
	field := func(name, was, is string) {
		if is != "" && was != is {
			fmt.Fprintf(&b, "  <%s>%s</%s>\n", name, escape(is), name)
		}
	}
	field("cwd", last.Cwd, now.Cwd)
	field("shell", last.Shell, now.Shell)
	field("current_date", last.Date, now.Date)
	field("timezone", last.Timezone, now.Timezone)
	if b.Len() == 0 {
		return ""
	}
	return "<environment_context>\n" + b.String() + "</environment_context>"
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil { // a Builder does not fail
		return s
	}
	return b.String()
}
