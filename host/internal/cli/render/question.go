package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/policy/command"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Limits, in lines, for a model's justification, the changes of a tool, and the diff of a patch in a question; and in characters, for
// the arguments of a call.
const (
	maxSaid      = 6
	maxChanges   = 20
	maxDiff      = 60
	maxArguments = 1000
)

// Question formats a question up to the point where the answer is typed, with the arguments of the call that it is about, preceded by
// the changes that the call would make.
func Question(q event.QuestionAsked, options []string, call event.Item) string {
	if isPlugins(q) {
		return pluginsQuestion(q, options)
	}
	var b strings.Builder
	b.WriteString(diffText(call.Changes))
	fmt.Fprintf(&b, "? %s\n", Quoted(q.Title))
	if q.Agent != "" {
		fmt.Fprintf(&b, "  agent: %s\n", Quoted(q.Agent))
	}
	if chain := q.Nesting(); chain != "" {
		fmt.Fprintf(&b, "  call: %s\n", Quoted(chain))
	}
	if text := argumentsText(call); text != "" {
		fmt.Fprintf(&b, "  arguments: %s\n", Quoted(text))
	}
	for _, e := range q.Effects {
		for _, line := range effectLines(e) {
			fmt.Fprintf(&b, "  %s\n", Quoted(line))
		}
	}
	for _, e := range q.Wanted {
		fmt.Fprintf(&b, "  beyond the sandbox: %s\n", Quoted(wantedText(e)))
	}
	reason := q.Reason
	if q.Message != "" { // the model's words, as opposed to the host's reason
		reason = strings.TrimRight(strings.TrimSuffix(reason, q.Message), ": ")
	}
	if reason != "" {
		fmt.Fprintf(&b, "  why: %s\n", Quoted(reason))
	}
	if q.Message != "" {
		fmt.Fprintf(&b, "  %s:\n%s", said(q), quotedLines(q.Message, maxSaid))
	}
	if q.Changes != "" {
		fmt.Fprintf(&b, "  what has changed, as the tool's plugin says:\n%s", quotedLines(q.Changes, maxChanges))
	}
	keys := letters(options)
	for i, o := range options {
		fmt.Fprintf(&b, "  %s) %s\n", keys[i], optionText(o, q.Rule))
	}
	return b.String()
}

// argumentsText returns the arguments of a call of a plugin's or a server's tool, shortened if necessary; "": there are none.
func argumentsText(call event.Item) string {
	if call.Type != event.ItemTool && call.Type != event.ItemMCPCall {
		return ""
	}
	text := folded(Clean(strings.TrimSpace(string(call.Arguments))))
	if r := []rune(text); len(r) > maxArguments {
		text = fmt.Sprintf("%s… %d more characters", string(r[:maxArguments]), len(r)-maxArguments)
	}
	return text
}

// said names the author of a question's message.
func said(q event.QuestionAsked) string {
	if q.About == event.QuestionApproval {
		return "the model says"
	}
	return "it says"
}

// quotedLines marks each line of a text as a quotation, so that it cannot be mistaken for a line of the question, and shortens
// long texts.
func quotedLines(text string, most int) string {
	return excerpt(strings.Split(strings.TrimRight(folded(Clean(text)), "\n"), "\n"), "  | ", most)
}

// excerpt adds a prefix to each line and shortens long texts.
func excerpt(lines []string, prefix string, most int) string {
	more := 0
	if len(lines) > most {
		lines, more = lines[:most], len(lines)-most
	}
	var b strings.Builder
	for _, line := range lines {
		if len(line) > maxShownLine {
			line = fmt.Sprintf("%s… %d more bytes", strings.ToValidUTF8(line[:maxShownLine], ""), len(line)-maxShownLine)
		}
		b.WriteString(prefix + line + "\n")
	}
	if more > 0 {
		fmt.Fprintf(&b, "%s… and %d more lines\n", prefix, more)
	}
	return b.String()
}

// diffText returns the changes that a call would make, shortened if necessary.
func diffText(changes []event.FileChange) string {
	var lines []string
	for _, c := range changes {
		head := c.Kind + " " + Clean(c.Path)
		if c.MovedFrom != "" {
			head += " (was " + Clean(c.MovedFrom) + ")"
		}
		lines = append(lines, strings.ReplaceAll(head, "\n", "␊"))
		for line := range strings.Lines(c.Diff) {
			lines = append(lines, "  "+folded(Clean(strings.TrimSuffix(line, "\n"))))
		}
	}
	return excerpt(lines, "  ", maxDiff)
}

// letter returns the key for an answer that always has the same one, or "".
func letter(option string) string {
	switch option {
	case approval.Approve:
		return "y"
	case approval.ApproveTurn:
		return "t"
	case approval.ApproveSession:
		return "s"
	case approval.ApproveAlways:
		return "a"
	case approval.Deny:
		return "n"
	case approval.DenyAlways:
		return "d"
	case approval.Abort:
		return "q"
	}
	return ""
}

// letters returns the keys for all options. Options without a letter are numbered.
func letters(options []string) []string {
	out := make([]string, len(options))
	for i, o := range options {
		if out[i] = letter(o); out[i] == "" {
			out[i] = strconv.Itoa(i + 1)
		}
	}
	return out
}

// optionText describes an answer. Rules that it writes are shown literally, with their file.
func optionText(option string, rule *event.RuleOffer) string {
	switch {
	case option == approval.ApproveAlways && rule != nil:
		return fmt.Sprintf("approve always: writes %s\n     to %s", Quoted(rule.Line), Quoted(rule.File))
	case option == approval.DenyAlways && rule != nil:
		return fmt.Sprintf("deny always: writes %s\n     to %s", Quoted(rule.Deny), Quoted(rule.File))
	}
	return strings.ReplaceAll(Clean(option), "_", " for this ")
}

// Quoted indents all lines of foreign text but the first, so that they cannot be mistaken for lines of the question.
func Quoted(s string) string { return strings.ReplaceAll(folded(Clean(s)), "\n", "\n    | ") }

// maxBlanks limits consecutive blank or identical characters, which could push other text off the screen.
const maxBlanks = 40

// folded replaces longer sequences of blank or identical characters with their number.
func folded(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		first, end := utf8.DecodeRuneInString(s)
		n := 1
		for end < len(s) {
			r, size := utf8.DecodeRuneInString(s[end:])
			if r != first && !(blank(r) && blank(first)) {
				break
			}
			n, end = n+1, end+size
		}
		switch {
		case n <= maxBlanks:
			b.WriteString(s[:end])
		case blank(first):
			fmt.Fprintf(&b, " …%d blanks… ", n)
		default:
			fmt.Fprintf(&b, "%c…%d of them…", first, n)
		}
		s = s[end:]
	}
	return b.String()
}

// blank reports whether a character is invisible.
func blank(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u2800', '\u3164', '\uffa0': // letters, according to Unicode
		return true
	}
	return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
}

// effectLines describes what a call would do.
func effectLines(e event.Effect) []string {
	switch e.Type {
	case "exec":
		var x contract.ExecEffect
		if json.Unmarshal(e.Data, &x) != nil || len(x.Argv) == 0 {
			break
		}
		argv := make([]string, len(x.Argv))
		for i, a := range x.Argv {
			argv[i] = strconv.Quote(folded(a))
		}
		lines := []string{"runs: " + strings.Join(argv, " ")}
		if x.Cwd != "" {
			lines = append(lines, "in: "+x.Cwd)
		}
		return append(lines, lookalikes(x.Argv)...)
	case "write", "read":
		var x contract.WriteEffect
		if json.Unmarshal(e.Data, &x) == nil && len(x.Paths) > 0 {
			return append([]string{e.Type + "s: " + quotedList(x.Paths)}, lookalikes(x.Paths)...)
		}
	case "network":
		var x contract.NetworkEffect
		if json.Unmarshal(e.Data, &x) != nil || x.Host == "" {
			break
		}
		text := "reaches: " + strconv.Quote(x.Host)
		switch {
		case x.Host == "*":
			text = "reaches: any host"
		case x.Port != 0:
			text += fmt.Sprintf(", port %d", x.Port)
		}
		if x.Method != "" {
			text += ", with " + strconv.Quote(x.Method)
		}
		return append([]string{text}, lookalikes([]string{x.Host})...)
	case "browser":
		var x contract.BrowserEffect
		if json.Unmarshal(e.Data, &x) == nil && x.Origin != "" {
			text := "acts in a browser on: " + strconv.Quote(x.Origin)
			if x.Kind != "" {
				text += ", " + folded(x.Kind)
			}
			if x.Page != "" && x.Page != x.Origin {
				text += ", from " + strconv.Quote(x.Page)
			}
			return append([]string{text}, lookalikes([]string{x.Origin, x.Page})...)
		}
	case "service":
		var x contract.ServiceEffect
		if json.Unmarshal(e.Data, &x) == nil && x.Service != "" {
			return []string{"asks " + strconv.Quote(folded(x.Service)) + " for: " + strconv.Quote(folded(x.Action)) + annotated(x)}
		}
	case "other":
		var x contract.OtherEffect
		if json.Unmarshal(e.Data, &x) == nil && x.Label != "" {
			return []string{"does: " + strconv.Quote(folded(x.Label))}
		}
	}
	// Undo encoding/json's escapes for HTML.
	data := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(e.Data))
	return []string{e.Type + " " + data}
}

// annotated returns what a service says of an action; it may be untrue.
func annotated(x contract.ServiceEffect) string {
	var words []string
	for _, a := range []struct {
		is      *bool
		yes, no string
	}{
		{x.ReadOnly, "only reads", "changes something"}, {x.Destructive, "may destroy something", "destroys nothing"},
		{x.OpenWorld, "acts beyond the service", "acts within the service"},
	} {
		switch {
		case a.is == nil:
		case *a.is:
			words = append(words, a.yes)
		default:
			words = append(words, a.no)
		}
	}
	if len(words) == 0 {
		return ", which says nothing of what that does"
	}
	return ", which says that it " + strings.Join(words, ", ")
}

// lookalikes warns about words that may be mistaken for others.
func lookalikes(words []string) (out []string) {
	for i, w := range words {
		parts := []string{w}
		if i == len(words)-1 && len(words) > 1 { // perhaps a script
			parts = strings.Fields(w)
		}
		for j, p := range parts {
			if marked, ok := command.Homoglyphs(p, i == 0 || j == 0 && len(parts) > 1); ok && len(out) < maxSaid {
				out = append(out, "warning: it contains letters that look like others: "+strconv.Quote(marked))
			}
		}
	}
	return out
}

func quotedList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(folded(s))
	}
	return strings.Join(quoted, ", ")
}

// wantedText describes a permission beyond the sandbox.
func wantedText(e event.Effect) string {
	var paths contract.WriteEffect
	switch {
	case (e.Type == "write" || e.Type == "read") && json.Unmarshal(e.Data, &paths) == nil:
		return e.Type + " " + quotedList(paths.Paths) + " and all below"
	case e.Type == "network" && string(e.Data) == `{"host":"*"}`:
		return "access the whole network"
	}
	return strings.Join(effectLines(e), "\n")
}

// Choose returns the option that a typed line selects.
func Choose(line string, options []string) (string, bool) {
	for i, key := range letters(options) {
		if strings.EqualFold(line, key) || strings.EqualFold(line, options[i]) {
			return options[i], true
		}
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		if len(options) > 0 && options[0] == approval.ApproveTurn { // the least permissive "yes"
			return approval.ApproveTurn, true
		}
		return approval.Approve, slices.Contains(options, approval.Approve)
	case "turn", "session", "always":
		option := approval.Approve + "_" + strings.ToLower(line)
		return option, slices.Contains(options, option)
	case "never":
		return approval.DenyAlways, slices.Contains(options, approval.DenyAlways)
	case "no":
		return approval.Deny, slices.Contains(options, approval.Deny)
	}
	return line, len(options) == 0 && line != ""
}
