package prompt

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// Each section is in an element that distinguishes it from what people say; package history knows their names. codex-compatible.

func modelSwitch(instructions string) string {
	return "<model_switch>\nAnother model has answered so far; the conversation is yours now. From here on these instructions hold, in the " +
		"place of those at the beginning:\n\n" + strings.TrimSpace(instructions) + "\n</model_switch>"
}

func permissions(p event.Permissions) string {
	var b strings.Builder
	b.WriteString("<permissions instructions>\n")
	if p.Sandbox == "full-access" {
		b.WriteString("Commands and file changes run without a sandbox: they can reach the whole machine and the network.\n")
	} else {
		fmt.Fprintf(&b, "Commands and file changes run in the sandbox mode %q.\n", p.Sandbox)
		if len(p.WritableRoots) > 0 {
			b.WriteString("Beside the working folder they may write to:\n")
			for _, dir := range p.WritableRoots {
				fmt.Fprintf(&b, "- %s\n", oneLine(dir))
			}
		}
		reach := "can't reach"
		if p.Network {
			reach = "can reach"
		}
		fmt.Fprintf(&b, "They %s the network.\n", reach)
	}
	switch p.Approval {
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

func pluginsElement(text string) string {
	return "<plugins_instructions>\n" + text + "\n</plugins_instructions>"
}

// agentsFiles returns the section with the users' instructions for agents.
func agentsFiles(now Agents, preface string) string {
	return "# AGENTS.md instructions for " + oneLine(now.Dir) + "\n\n<INSTRUCTIONS>\n" + preface + now.Text + "\n</INSTRUCTIONS>"
}

// oneLine keeps a path on one line.
func oneLine(path string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '\uFFFD'
		}
		return r
	}, path)
}

// escape keeps a value inside its element and on its line.
func escape(s string) string { return values.Replace(s) }

var values = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;", "\n", "&#10;", "\r", "&#13;")

// markup escapes text so that it is not read as markup. Unlike escape it keeps line breaks.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
