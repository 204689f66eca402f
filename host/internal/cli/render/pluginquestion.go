package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/form"
)

// Limits of a plugin's question on the screen: lines of its message, characters of an option or a title, and options.
const (
	maxAsked      = 20
	maxOptionText = 160
	maxOptions    = 64
)

// isPlugins reports whether a plugin puts a question of its own. All its texts are then a stranger's.
func isPlugins(q event.QuestionAsked) bool {
	return q.Plugin != "" || q.About == event.QuestionForm || q.About == event.QuestionURL
}

// Asker says who puts a question that is not gantry's, such as `server "github" of plugin "mcp"`.
func Asker(q event.QuestionAsked) string {
	plugin := "a plugin"
	if q.Plugin != "" {
		plugin = "plugin " + strconv.Quote(q.Plugin)
	}
	if q.Source == "" {
		return plugin
	}
	return "server " + strconv.Quote(Plain(q.Source)) + " of " + plugin
}

// pluginsQuestion formats a plugin's question. Its first line says who asks, and only quotations and options contain the plugin's
// words, so it can't look like a question of gantry's.
func pluginsQuestion(q event.QuestionAsked, options []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "? %s asks\n", Asker(q))
	if q.Title != "" {
		b.WriteString(quotedLines(q.Title, 2))
	}
	if q.Message != "" {
		b.WriteString(quotedLines(q.Message, maxAsked))
	}
	if q.URL != "" {
		fmt.Fprintf(&b, "  address: %s\n", Plain(strings.ReplaceAll(q.URL, "\n", "␊")))
	}
	switch q.About {
	case event.QuestionForm:
		b.WriteString("  y) fill in its form\n")
	case event.QuestionURL:
		b.WriteString("  y) done\n")
	default:
		if yes, no := yesAndNo(options); yes != "" {
			fmt.Fprintf(&b, "  y) %s\n  n) %s\n  q) dismiss\n", OptionText(yes), OptionText(no))
			return b.String()
		}
		for i, o := range options[:min(len(options), maxOptions)] {
			fmt.Fprintf(&b, "  %d) %s\n", i+1, OptionText(o))
		}
		if more := len(options) - maxOptions; more > 0 {
			fmt.Fprintf(&b, "  … and %d more\n", more)
		}
		if len(options) == 0 {
			return b.String()
		}
	}
	b.WriteString("  n) decline\n  q) dismiss\n")
	return b.String()
}

// yesAndNo returns the two options of a question that amounts to yes or no; "": it does not.
func yesAndNo(options []string) (yes, no string) {
	if len(options) != 2 {
		return "", ""
	}
	for i, o := range options {
		other := options[1-i]
		if slices.Contains(yesWords[:], strings.ToLower(o)) && slices.Contains(noWords[:], strings.ToLower(other)) {
			return o, other
		}
	}
	return "", ""
}

// The words of options that are an obvious yes and no.
var (
	yesWords = [...]string{"yes", "allow", "accept", "approve", "ok", "confirm"}
	noWords  = [...]string{"no", "refuse", "deny", "reject", "decline", "cancel"}
)

// OptionText returns an option of a plugin on one line.
func OptionText(s string) string { return OneLine(folded(Plain(s)), maxOptionText) }

// Chosen returns the answer to a question that a typed line selects.
func Chosen(line string, q event.QuestionAsked, options []string) (string, bool) {
	if !isPlugins(q) || q.About == event.QuestionChoice && len(options) == 0 {
		return Choose(line, options)
	}
	yes, no := yesAndNo(options)
	switch word := strings.ToLower(line); {
	case q.About == event.QuestionChoice && yes != "" && (word == "y" || word == "yes"):
		return yes, true
	case q.About == event.QuestionChoice && yes != "" && (word == "n" || word == "no"):
		return no, true
	case word == "n" || word == "no" || word == "decline":
		return approval.Deny, true
	case word == "q" || word == "dismiss":
		return approval.Dismiss, true
	case q.About != event.QuestionChoice:
		return approval.Approve, word == "y" || word == "yes"
	}
	if i, err := strconv.Atoi(line); err == nil && i >= 1 && i <= len(options) {
		return options[i-1], true
	}
	if i := slices.IndexFunc(options, func(o string) bool { return strings.EqualFold(o, line) }); i >= 0 {
		return options[i], true
	}
	return "", false
}

// Field formats field n of a form, from 1, up to the point where its value is typed.
func Field(f form.Field, n, of int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %d of %d: %s", n, of, strconv.Quote(OptionText(f.Name)))
	if f.Title != "" && f.Title != f.Name {
		fmt.Fprintf(&b, ", %s", strconv.Quote(OptionText(f.Title)))
	}
	kind := f.Kind.String()
	if f.Kind == form.Text && f.Format != "" {
		kind = OptionText(f.Format)
	}
	fmt.Fprintf(&b, ": %s", kind)
	if f.Kind == form.Many {
		b.WriteString(", separated by commas")
	}
	switch {
	case f.Default != nil:
		fmt.Fprintf(&b, ", default %s", OptionText(string(f.Default)))
	case f.Required:
		b.WriteString(", required")
	default:
		b.WriteString(", optional")
	}
	b.WriteByte('\n')
	if f.Description != "" {
		b.WriteString(quotedLines(f.Description, maxSaid))
	}
	for i, o := range f.Options[:min(len(f.Options), maxOptions)] {
		fmt.Fprintf(&b, "    %d) %s\n", i+1, OptionText(o.Label()))
	}
	if more := len(f.Options) - maxOptions; more > 0 {
		fmt.Fprintf(&b, "    … and %d more\n", more)
	}
	b.WriteString("  value: ")
	return b.String()
}

// Filled formats a form that is filled in, before it is sent.
func Filled(answer []byte) string {
	return "  its answer:\n" + quotedLines(string(answer), maxAsked) + "  y) send it\n  r) fill in again\n  n) decline\n  q) dismiss\n  answer: "
}
