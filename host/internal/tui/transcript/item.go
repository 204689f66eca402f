package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"github.com/gantry-agent/gantry/host/internal/tui/theme"
)

// How much is shown of what is folded.
const (
	outputHead, outputTail = 3, 5
	diffHead, diffTail     = 24, 6
	thoughtHead            = 3
	resultHead             = 4
)

// render returns the lines of an item at most as wide as the window.
func (v *View) render(it *client.Item, r *rendered) []term.Line {
	if it.Notice != nil {
		return v.notice(*it.Notice)
	}
	switch b := it.Body.(type) {
	case protocol.UserMessageItem:
		bar := term.Text("› ", theme.Accent)
		return v.prefixed(term.Wrap([]term.Span{{Text: term.Clean(Input(b.Content)), Style: theme.User}}, v.width-2), bar)
	case protocol.AgentMessageItem:
		return r.stream.Render(it.Text(), v.width)
	case protocol.PlanItem:
		return append([]term.Line{term.Text("Plan", theme.Heading).Fit(v.width)}, r.stream.Render(it.Text(), v.width)...)
	case protocol.ReasoningItem:
		return v.reasoning(it)
	case protocol.CommandExecutionItem:
		return v.command(it, b)
	case protocol.FileChangeItem:
		return v.changes(b)
	case protocol.MCPToolCallItem:
		return v.call(b.Server+"."+b.Tool, b.Arguments, b.Status, v.mcpResult(b))
	case protocol.DynamicToolCallItem:
		var text []string
		for _, c := range b.ContentItems {
			switch c := c.Body.(type) {
			case protocol.InputTextContent:
				text = append(text, c.Text)
			case protocol.InputImageContent:
				text = append(text, "[image]")
			}
		}
		return v.call(b.Tool, b.Arguments, b.Status, strings.Join(text, "\n"))
	case protocol.WebSearchItem:
		return v.one("searched the web: " + b.Query)
	case protocol.ImageViewItem:
		return v.one("looked at " + b.Path)
	case protocol.EnteredReviewModeItem:
		return v.one("review of " + b.Review)
	case protocol.ExitedReviewModeItem:
		return r.stream.Render(b.Review, v.width)
	case protocol.ContextCompactionItem:
		return v.one("the conversation was compacted")
	}
	return nil
}

// Input is the text of a user's message.
func Input(parts []protocol.UserInput) string {
	var out []string
	for _, p := range parts {
		switch p := p.Body.(type) {
		case protocol.TextInput:
			out = append(out, p.Text)
		case protocol.ImageInput:
			out = append(out, "[image]")
		case protocol.LocalImageInput:
			out = append(out, "[image "+p.Path+"]")
		case protocol.SkillInput:
			out = append(out, "$"+p.Name)
		case protocol.MentionInput:
			out = append(out, "@"+p.Name)
		}
	}
	return strings.Join(out, " ")
}

func (v *View) prefixed(lines []term.Line, first term.Line) []term.Line {
	lines = term.Prefix(lines, first, term.Text(strings.Repeat(" ", first.Width()), theme.Text))
	for i := range lines {
		lines[i] = lines[i].Fit(v.width)
	}
	return lines
}

func (v *View) one(s string) []term.Line {
	return v.prefixed(term.Wrap([]term.Span{{Text: term.Plain(s), Style: theme.Dim}}, v.width-2), term.Text("· ", theme.Dim))
}

func (v *View) notice(n client.Notice) []term.Line {
	style, mark := theme.Dim, "· "
	switch n.Level {
	case client.Warning:
		style, mark = theme.Warn, "! "
	case client.Error:
		style, mark = theme.Bad, "✗ "
	}
	var lines []term.Line
	if n.Diff {
		lines = v.fold(diffLines(strings.Split(strings.TrimRight(term.Clean(n.Text), "\n"), "\n"), v.width-2), diffHead, diffTail)
	} else {
		lines = term.Wrap([]term.Span{{Text: term.Clean(n.Text), Style: style}}, v.width-2)
	}
	if n.Next != "" {
		lines = append(lines, term.Wrap([]term.Span{{Text: term.Clean(n.Next), Style: theme.Dim}}, v.width-2)...)
	}
	return v.prefixed(lines, term.Text(mark, style))
}

func (v *View) reasoning(it *client.Item) []term.Line {
	text := strings.TrimSpace(term.Clean(it.Text()))
	if text == "" {
		if it.Done {
			return nil
		}
		text = "thinking …"
	}
	lines := term.Wrap([]term.Span{{Text: strings.ReplaceAll(text, "**", ""), Style: theme.Dim.With(theme.Emphasis)}}, v.width-2)
	if it.Done {
		lines = v.fold(lines, thoughtHead, 0)
	} else {
		lines = v.fold(lines, 0, thoughtHead) // what it thinks now
	}
	return v.prefixed(lines, term.Text("∴ ", theme.Dim))
}

// fold returns lines with those in the middle replaced by their number.
func (v *View) fold(lines []term.Line, head, tail int) []term.Line {
	hidden := len(lines) - head - tail
	if v.unfolded || hidden <= 1 { // the line that says so needs as much space
		return lines
	}
	out := append([]term.Line(nil), lines[:head]...)
	out = append(out, term.Text(fmt.Sprintf("… %d lines (%s shows all)", hidden, v.UnfoldKey), theme.Dim))
	return append(out, lines[len(lines)-tail:]...)
}

// mark says how an action has gone.
func mark(s protocol.ItemStatus) term.Span {
	switch s {
	case protocol.ItemCompleted:
		return term.Span{Text: "✓", Style: theme.Good}
	case protocol.ItemFailed:
		return term.Span{Text: "✗", Style: theme.Bad}
	case protocol.ItemDeclined:
		return term.Span{Text: "⊘", Style: theme.Warn}
	}
	return term.Span{Text: "…", Style: theme.Dim}
}

// CommandLine is a command as a person would write it: without the shell that runs it.
func CommandLine(b protocol.CommandExecutionItem) string {
	if len(b.CommandActions) == 1 {
		switch a := b.CommandActions[0].Body.(type) {
		case protocol.ReadAction:
			return a.Command
		case protocol.ListFilesAction:
			return a.Command
		case protocol.SearchAction:
			return a.Command
		case protocol.UnknownAction:
			return a.Command
		}
	}
	return b.Command
}

func (v *View) command(it *client.Item, b protocol.CommandExecutionItem) []term.Line {
	sign := "$ "
	if b.Source == protocol.CommandUserShell {
		sign = "! "
	}
	head := []term.Span{{Text: term.Clean(CommandLine(b)), Style: theme.Strong}}
	if b.Status != protocol.ItemInProgress {
		head = append(head, term.Span{Text: " "}, mark(b.Status))
		if b.ExitCode != nil && *b.ExitCode != 0 {
			head = append(head, term.Span{Text: fmt.Sprintf(" exit %d", *b.ExitCode), Style: theme.Bad})
		}
		if b.DurationMs != nil && *b.DurationMs >= 1000 {
			head = append(head, term.Span{Text: " " + Duration(time.Duration(*b.DurationMs)*time.Millisecond), Style: theme.Dim})
		}
	}
	out := v.prefixed(v.fold(term.Wrap(head, v.width-2), 6, 2), term.Text(sign, theme.Accent))
	text := strings.TrimRight(term.Clean(it.Text()), "\n ")
	if text == "" {
		return out
	}
	lines := v.fold(term.WrapAnywhere([]term.Span{{Text: text, Style: theme.Dim}}, v.width-2), outputHead, outputTail)
	if n := it.Omitted(); n > 0 {
		lines = append(lines, term.Text(fmt.Sprintf("(%d bytes in the middle are not kept here)", n), theme.Dim))
	}
	return append(out, v.prefixed(lines, term.Text("  ", theme.Text))...)
}

// Duration is a duration as it is shown.
func Duration(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.0fs", d.Seconds())
	}
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

func (v *View) changes(b protocol.FileChangeItem) []term.Line {
	var out []term.Line
	for i, c := range b.Changes {
		if i > 0 {
			out = append(out, nil)
		}
		out = append(out, v.change(c, b.Status)...)
	}
	return out
}

func (v *View) change(c protocol.FileUpdateChange, status protocol.ItemStatus) []term.Line {
	verb := "changed"
	switch k := c.Kind.Body.(type) {
	case protocol.AddPatch:
		verb = "added"
	case protocol.DeletePatch:
		verb = "deleted"
	case protocol.UpdatePatch:
		if k.MovePath != nil {
			verb = "moved to " + term.Plain(*k.MovePath) + " from"
		}
	}
	diff := DiffLines(c, v.width-2)
	added, removed := 0, 0
	for line := range strings.Lines(c.Diff) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case line[0] == '+':
			added++
		case line[0] == '-':
			removed++
		}
	}
	head := term.Line{{Text: verb + " ", Style: theme.Dim}, {Text: term.Plain(c.Path), Style: theme.Strong}}
	if _, update := c.Kind.Body.(protocol.UpdatePatch); update {
		head = append(head, term.Span{Text: fmt.Sprintf(" +%d", added), Style: theme.Good}, term.Span{Text: fmt.Sprintf(" -%d", removed), Style: theme.Bad})
	}
	head = append(head, term.Span{Text: " "}, mark(status))
	out := v.prefixed(term.Wrap(head, v.width-2), term.Text("± ", theme.Accent))
	return append(out, v.prefixed(v.fold(diff, diffHead, diffTail), term.Text("  ", theme.Text))...)
}

// DiffLines returns the lines of a change, in colours.
func DiffLines(c protocol.FileUpdateChange, width int) []term.Line {
	text := strings.TrimRight(term.Clean(c.Diff), "\n")
	if text == "" {
		return nil
	}
	_, added := c.Kind.Body.(protocol.AddPatch)
	_, deleted := c.Kind.Body.(protocol.DeletePatch)
	whole := (added || deleted) && !strings.HasPrefix(text, "@@") && !strings.HasPrefix(text, "---") // the content alone
	lines := strings.Split(text, "\n")
	for i := range lines {
		switch {
		case whole && added:
			lines[i] = "+" + lines[i]
		case whole:
			lines[i] = "-" + lines[i]
		}
	}
	return diffLines(lines, width)
}

func diffLines(lines []string, width int) []term.Line {
	var out []term.Line
	for _, line := range lines {
		style := theme.Text
		switch {
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "diff "):
			style = theme.Strong
		case strings.HasPrefix(line, "+"):
			style = theme.Good
		case strings.HasPrefix(line, "-"):
			style = theme.Bad
		case strings.HasPrefix(line, "@@"):
			style = theme.Dim
		}
		out = append(out, term.WrapAnywhere([]term.Span{{Text: line, Style: style}}, width)...)
	}
	return out
}

func (v *View) mcpResult(b protocol.MCPToolCallItem) string {
	if b.Error != nil {
		return b.Error.Message
	}
	if b.Result == nil {
		return ""
	}
	var text []string
	for _, raw := range b.Result.Content {
		var c struct{ Type, Text string }
		if json.Unmarshal(raw, &c) != nil {
			continue
		}
		if c.Type != "text" {
			c.Text = "[" + c.Type + "]"
		}
		text = append(text, c.Text)
	}
	return strings.Join(text, "\n")
}

// call shows a call of a tool.
func (v *View) call(name string, arguments json.RawMessage, status protocol.ItemStatus, result string) []term.Line {
	var args bytes.Buffer
	if json.Compact(&args, arguments) != nil || args.String() == "null" {
		args.Reset()
	}
	head := []term.Span{{Text: term.Plain(name), Style: theme.Strong}, {Text: " " + term.Plain(args.String()), Style: theme.Dim}}
	lines := term.Wrap(head, v.width-4)
	if !v.unfolded && len(lines) > 2 {
		lines = append(lines[:2:2], term.Text("…", theme.Dim))
	}
	lines[len(lines)-1] = append(lines[len(lines)-1], term.Span{Text: " "}, mark(status))
	out := v.prefixed(lines, term.Text("» ", theme.Accent))
	if result = strings.TrimSpace(term.Clean(result)); result != "" {
		style := theme.Dim
		if status == protocol.ItemFailed {
			style = theme.Bad
		}
		lines := v.fold(term.WrapAnywhere([]term.Span{{Text: result, Style: style}}, v.width-2), resultHead, 0)
		out = append(out, v.prefixed(lines, term.Text("  ", theme.Text))...)
	}
	return out
}
