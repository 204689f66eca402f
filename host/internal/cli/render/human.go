package render

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/history"
)

// Human shows a thread's events to a user as they happen: progress on one writer, the final message on another. Conventions: a
// line announces each item, its output is indented below, and a line says how it ended. When calls run concurrently, a line says
// whose output follows whenever that changes. Colour is used only on a terminal. Text from a tool or a model is shown without
// control characters.
type Human struct {
	out     io.Writer
	colour  bool
	verbose bool
	asks    bool         // another component asks questions on the same screen
	current event.ItemID // the item whose text was written last
	block   event.ItemID // the call whose lines were written last; "" after other output
	midLine bool
	net     event.TurnDiff // of the running turn
	shown   map[event.ItemID]*shownItem
	served  map[string]bool // pending questions to clients, which people don't see
	// Reverted are the reverted turns, which are marked where they are shown.
	Reverted map[event.TurnID]bool
	// active is the number of tokens of window that the conversation uses; 0: unknown.
	active, window int64
}

type shownItem struct {
	item  event.Item
	name  string // of a call, to distinguish it from concurrent ones
	lines int
	rest  []byte // the incomplete last line of output
	more  int    // bytes of that line that were not kept
	text  bool
}

// maxShownLines limits the shown output of one command; further lines are only counted. The model and the store have the complete
// output.
const maxShownLines = 20

// maxShownLine limits one of these lines, in bytes: output without line breaks may have gigabytes.
const maxShownLine = 4 << 10

// NewHuman returns a view that writes to w. verbose includes reasoning and complete output.
func NewHuman(w io.Writer, colour, verbose bool) *Human {
	return &Human{out: w, colour: colour, verbose: verbose, shown: map[event.ItemID]*shownItem{}, served: map[string]bool{}}
}

// ShowOn redirects output to s. asks is set if another component asks questions there.
func (h *Human) ShowOn(s *Screen, asks bool) { h.out, h.asks = s, asks }

const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (h *Human) paint(code, s string) string {
	if !h.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (h *Human) line(format string, args ...any) {
	h.breakLine()
	fmt.Fprintf(h.out, format+"\n", args...)
}

func (h *Human) breakLine() {
	if h.midLine {
		fmt.Fprintln(h.out)
		h.midLine = false
	}
}

// Event shows one event.
func (h *Human) Event(e event.Event) {
	// What an event adds is written at once: a terminal, or who reads a pipe, is woken up once.
	out, lines := h.out, &bytes.Buffer{}
	h.out = lines
	defer func() {
		h.out = out
		if lines.Len() > 0 {
			_, _ = out.Write(lines.Bytes()) // as for every line: nobody can be told that nobody reads
		}
	}()
	switch b := e.Body.(type) {
	case event.TurnStarted:
		if h.Reverted[e.Turn] {
			h.line("%s", h.paint(yellow, "↶ this turn was rolled back:"))
		}
		h.line("%s", h.paint(dim, fmt.Sprintf("model %s (%s) · approval %s · sandbox %s · %s", b.ModelName, b.Provider, b.Approval, b.Sandbox, b.Cwd)))
	case event.ModelChanged:
		h.line("%s", h.paint(dim, "model changed from "+selection(b.From, b.To)+" to "+selection(b.To, b.From)))
	case event.SettingsChanged:
		h.line("%s", h.paint(dim, "settings: "+settingsText(b.Settings)))
	case event.UsageReported:
		if b.Active > 0 && b.ContextWindow > 0 {
			h.active, h.window = b.Active, b.ContextWindow
		}
	case event.HistoryCompacted:
		h.active, h.window = b.After, b.ContextWindow
	case event.ThreadReverted:
		h.active = 0
		h.line("%s", h.paint(yellow, "↶ rolled back "+Plural(b.Turns, "turn")))
	case event.ThreadForked:
		h.line("%s", h.paint(dim, "up to here from thread "+string(b.From)))
	case event.ThreadArchived:
		what := "unarchived"
		if b.Archived {
			what = "archived"
		}
		h.line("%s", h.paint(dim, what))
	case event.TurnDiff:
		h.net = b
	case event.FilesChanged:
		if len(b.Undoes) > 0 {
			h.line("%s", h.paint(yellow, "↶ restored "+Plural(len(b.Changes), "file")))
		}
	case event.HookStarted:
		if b.Run.Message != "" {
			h.line("%s", h.paint(dim, Clean(b.Run.Message)))
		}
	case event.HookCompleted:
		h.hook(b)
	case event.ItemStarted:
		h.started(b.Item)
	case event.ItemDelta:
		h.delta(b)
	case event.ItemCompleted:
		h.completed(b.Item)
	case event.StreamRetried:
		delay := time.Duration(b.DelayMS) * time.Millisecond
		text := fmt.Sprintf("! the provider retries in %v (%s)", delay, Clean(b.Cause))
		if b.Max > 0 { // otherwise the provider itself retries
			what := "the model did not answer"
			if b.Begun {
				what = "the stream broke"
			}
			text = fmt.Sprintf("! %s (%s); retrying in %v, %d of %d", what, Clean(b.Cause), delay, b.Attempt, b.Max)
		}
		if b.Busy {
			text = fmt.Sprintf("! %s; next attempt in %v", Clean(b.Cause), delay.Round(100*time.Millisecond))
		}
		if b.Offline {
			text = fmt.Sprintf("! no connection (%s); waiting for it, next attempt in %v", Clean(b.Cause), delay)
		}
		h.line("%s", h.paint(yellow, text))
	case event.QuestionAsked:
		if !b.About.ForPerson() {
			h.served[b.ID] = true
			return
		}
		h.block = ""
		if !h.asks {
			h.line("%s %s", h.paint(yellow, "?"), Clean(b.Title))
		}
	case event.QuestionResolved:
		if h.served[b.ID] {
			delete(h.served, b.ID)
			return
		}
		if !h.asks {
			h.line("  %s", h.paint(dim, Clean(strings.TrimSpace("answered: "+b.Answer+" "+b.By))))
		}
	case event.SessionExited:
		h.line("%s", h.paint(dim, fmt.Sprintf("session %s %s (exit %d)", b.Session, b.How, b.ExitCode)))
	case event.SessionControlled:
		if b.Person {
			h.line("%s", h.paint(yellow, Clean(fmt.Sprintf("! a person has taken control of session %s; calls that work on it wait", b.Session))))
		} else {
			h.line("%s", h.paint(dim, Clean("the agent has control of session "+b.Session+" again")))
		}
	case event.NetworkDecision:
		if !b.Allowed {
			reason := b.Reason
			if b.Named != "" {
				reason += ": " + b.Named
			}
			h.line("%s", h.paint(yellow, Clean(fmt.Sprintf("! network access to %s:%d was refused (%s)", b.Host, b.Port, reason))))
		}
	case event.SourceChanged:
		if b.Required && b.State == "starting" { // the turn may wait for it
			h.line("%s", h.paint(dim, Clean(fmt.Sprintf("starting the source %s of plugin %s", b.Source, b.Plugin))))
		}
		if b.State == "ready" && b.Message != "" { // some of its tools are left out
			h.line("%s", h.paint(yellow, "! "+Clean(fmt.Sprintf("%s of plugin %s: %s", b.Source, b.Plugin, b.Message))))
		}
	case event.Notice:
		h.line("%s", h.paint(yellow, "! "+Clean(b.Text)))
		if b.Next != "" {
			h.line("  %s", Clean(b.Next))
		}
	case event.TurnEnded:
		h.turnEnded(b)
	}
}

func (h *Human) started(it event.Item) {
	s := &shownItem{item: it}
	h.shown[it.ID] = s
	switch it.Type {
	case event.ItemAgentMessage, event.ItemReasoning:
		return // shown while streaming
	case event.ItemEnteredReview, event.ItemExitedReview, event.ItemPlan:
		return // shown when complete, which is at once
	}
	same, text := 0, title(it)
	for _, other := range h.shown {
		if other != s && other.name != "" && title(other.item) == text {
			same++
		}
	}
	s.name = OneLine(text, 60)
	if same > 0 {
		s.name += fmt.Sprintf(" (%d)", same+1)
		text += fmt.Sprintf(" (%d)", same+1)
	}
	h.line("%s %s", h.paint(cyan, "•"), h.paint(bold, text))
	h.block = it.ID
}

// turnTo announces whose lines follow, if the previous ones may belong to another call.
func (h *Human) turnTo(s *shownItem) {
	if h.block == s.item.ID {
		return
	}
	calls := 0
	for _, other := range h.shown {
		if other.name != "" {
			calls++
		}
	}
	if s.name != "" && (h.block != "" || calls > 1) {
		h.line("%s", h.paint(dim, "· "+s.name))
	}
	h.block = s.item.ID
}

// maxCodeLines bounds the lines of code that are shown.
const maxCodeLines = 12

func title(it event.Item) string {
	switch it.Type {
	case event.ItemCommand:
		return "$ " + Clean(strings.ReplaceAll(it.Command, "\n", "\n    "))
	case event.ItemCode:
		lines := strings.Split(strings.TrimRight(it.Command, "\n"), "\n")
		if more := len(lines) - maxCodeLines; more > 0 {
			lines = append(lines[:maxCodeLines:maxCodeLines], fmt.Sprintf("… (%d more lines)", more))
		}
		return Clean(it.Language + "> " + strings.Join(lines, "\n    "))
	case event.ItemFileChange:
		names := make([]string, 0, len(it.Changes))
		for _, c := range it.Changes {
			names = append(names, c.Kind+" "+Clean(c.Path))
		}
		return "patch: " + strings.Join(names, ", ")
	case event.ItemImage:
		return "view " + Clean(cmp.Or(it.Path, it.Tool))
	case event.ItemCompaction:
		return "compact the conversation"
	case event.ItemWebSearch:
		return "search the web: " + Clean(it.Query)
	}
	args := Clean(string(it.Arguments))
	if len(args) > 120 {
		args = strings.ToValidUTF8(args[:120], "") + "…"
	}
	name := it.Tool
	if it.Type == event.ItemMCPCall && it.Server != "" {
		name = it.Server + "." + name
	}
	return strings.TrimSpace(Clean(name) + " " + args)
}

func (h *Human) delta(d event.ItemDelta) {
	s := h.shown[d.Item]
	if s == nil {
		return
	}
	switch d.Delta {
	case event.DeltaText:
		if h.current != d.Item {
			h.breakLine()
			h.current = d.Item
		}
		s.text, h.block = true, ""
		fmt.Fprint(h.out, Clean(d.Text))
		h.midLine = !strings.HasSuffix(d.Text, "\n")
	case event.DeltaReasoning:
		if h.verbose {
			h.block = ""
			fmt.Fprint(h.out, h.paint(dim, Clean(d.Text)))
			h.midLine = !strings.HasSuffix(d.Text, "\n")
		}
	case event.DeltaOutput:
		text := d.Text
		for {
			line, rest, ended := strings.Cut(text, "\n")
			h.gather(s, line)
			if !ended {
				break
			}
			h.endLine(s)
			text = rest
		}
	case event.DeltaProgress, event.DeltaNote:
		h.turnTo(s)
		h.line("  %s", h.paint(dim, Clean(d.Text)))
	}
}

// gather appends a part of a line, up to the length that will be shown.
func (h *Human) gather(s *shownItem, piece string) {
	keep := len(piece)
	if !h.verbose {
		keep = min(keep, maxShownLine-len(s.rest))
		if s.lines >= maxShownLines {
			keep = 0
		}
	}
	s.rest, s.more = append(s.rest, piece[:keep]...), s.more+len(piece)-keep
}

func (h *Human) endLine(s *shownItem) {
	line := string(s.rest)
	if s.more > 0 {
		line = fmt.Sprintf("%s… %d more bytes", strings.ToValidUTF8(line, ""), s.more)
	}
	s.rest, s.more = s.rest[:0], 0
	h.output(s, line)
}

func (h *Human) output(s *shownItem, line string) {
	s.lines++
	if s.lines <= maxShownLines || h.verbose {
		h.turnTo(s)
		h.line("  %s", h.paint(dim, Clean(strings.TrimSuffix(line, "\r"))))
	}
}

func (h *Human) completed(it event.Item) {
	s := h.shown[it.ID]
	if s == nil {
		if it.Type == event.ItemUserMessage {
			h.line("%s %s", h.paint(cyan, ">"), Clean(it.Text))
		}
		if it.Type == event.ItemMail {
			h.line("%s %s: %s", h.paint(cyan, "✉"), Clean(it.Author), Clean(it.Text))
		}
		if it.Type == event.ItemAgentActivity {
			h.line("%s agent %s", h.paint(cyan, "•"), Clean(it.Text))
		}
		return
	}
	defer delete(h.shown, it.ID)
	switch it.Type {
	case event.ItemAgentMessage:
		if !s.text {
			fmt.Fprint(h.out, Clean(it.Text))
			h.midLine = !strings.HasSuffix(it.Text, "\n")
		}
		h.breakLine()
		if it.Status == event.StatusSuperseded {
			h.line("%s", h.paint(dim, "(the answer broke off; asking the model again)"))
		}
		return
	case event.ItemEnteredReview:
		h.line("%s %s", h.paint(cyan, "•"), h.paint(bold, "review: "+Clean(it.Text)))
		return
	case event.ItemExitedReview:
		switch {
		case it.Review == nil:
			h.line("  %s", h.paint(yellow, "✗ no result"))
		case len(it.Review.Findings) == 0:
			h.line("  %s", h.paint(green, "✓ no findings"))
		default:
			h.line("  %s", h.paint(yellow, Plural(len(it.Review.Findings), "finding")))
		}
		return
	case event.ItemReasoning:
		h.breakLine()
		return
	case event.ItemPlan:
		if h.planned(it) {
			return
		}
		h.line("%s %s", h.paint(cyan, "•"), h.paint(bold, title(it)))
	}
	if len(s.rest)+s.more > 0 {
		h.endLine(s)
	}
	if s.lines == 0 { // the output was not streamed, or a stored thread is shown
		for line := range strings.Lines(it.Output) {
			h.output(s, strings.TrimSuffix(line, "\n"))
		}
	}
	h.turnTo(s)
	if hidden := s.lines - maxShownLines; hidden > 0 && !h.verbose {
		h.line("  %s", h.paint(dim, fmt.Sprintf("… %d more lines", hidden)))
	}
	for _, c := range it.Changes {
		h.diff(c)
	}
	if it.Type == event.ItemCompaction && it.Text != "" {
		h.line("  %s", h.paint(dim, Clean(it.Text)))
	}
	for _, a := range it.Artifacts {
		h.line("  %s", h.paint(dim, Clean(artifactLine(a))))
	}
	switch {
	case it.Status == event.StatusDeclined:
		h.line("  %s", h.paint(red, "✗ refused"))
	case it.Status == event.StatusAborted:
		h.line("  %s", h.paint(yellow, "✗ stopped"))
	case it.ExitCode != nil && *it.ExitCode != 0:
		h.line("  %s", h.paint(red, fmt.Sprintf("✗ exit %d", *it.ExitCode)))
	case it.Status == event.StatusFailed:
		h.line("  %s", h.paint(red, "✗ failed"))
	case it.Session != "" && it.ExitCode == nil && it.Type != event.ItemCode:
		h.line("  %s", h.paint(dim, "… continues as session "+it.Session))
	default:
		h.line("  %s", h.paint(green, "✓"))
	}
}

// artifactLine describes an artifact: "stored report.html (text/html, 12345 bytes): sha256 ab…".
func artifactLine(a event.Artifact) string {
	var facts []string
	if a.MediaType != "" {
		facts = append(facts, a.MediaType)
	}
	if a.Bytes > 0 {
		facts = append(facts, Plural(int(a.Bytes), "byte"))
	}
	line := strings.TrimSpace("stored " + a.Name)
	if len(facts) > 0 {
		line += " (" + strings.Join(facts, ", ") + ")"
	}
	return line + ": sha256 " + a.SHA256
}

func (h *Human) diff(c event.FileChange) {
	for line := range strings.Lines(c.Diff) {
		line = Clean(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "+"):
			line = h.paint(green, line)
		case strings.HasPrefix(line, "-"):
			line = h.paint(red, line)
		}
		h.line("  %s", line)
	}
}

func (h *Human) turnEnded(b event.TurnEnded) {
	if len(h.net.Files) > 0 {
		h.line("%s", h.paint(dim, netLine(h.net.Files)))
		if h.verbose {
			h.showDiff(h.net.Diff)
		}
	}
	h.net = event.TurnDiff{}
	switch b.Status {
	case event.TurnFailed:
		h.line("%s %s", h.paint(red, "Error:"), Clean(b.Error.Message))
		if b.Error.Next != "" {
			h.line("  Next: %s", Clean(b.Error.Next))
		}
	case event.TurnInterrupted:
		h.line("%s", h.paint(yellow, interruption(b.Reason)))
	}
	if b.DurationMS == 0 && b.TurnUsage == (event.Tokens{}) {
		return // the usage at the start of a turn that ended in another process is unknown
	}
	h.line("%s", h.paint(dim, fmt.Sprintf("%v · %d tokens in (%d cached), %d out%s%s", (time.Duration(b.DurationMS)*time.Millisecond).Round(time.Millisecond),
		b.TurnUsage.Input, b.TurnUsage.CacheRead, b.TurnUsage.Output, costs(b.TurnUsage.Cost, b.Usage.Cost), h.left())))
}

// selection names a model, and its block if two selections differ only in that.
func selection(s, other event.Selection) string {
	text := fmt.Sprintf("%s (%s)", s.ModelName, s.Provider)
	if s.Model != "" && s.ModelName == other.ModelName && s.Provider == other.Provider {
		text = fmt.Sprintf("%s: %s", s.Model, text)
	}
	return text
}

// interruption says that a turn was interrupted, and the reason unless it is the usual one.
func interruption(reason string) string {
	if reason == "" || reason == "interrupted" {
		return "interrupted"
	}
	return "interrupted: " + Clean(reason)
}

// left describes how much of the context window is left, or returns "" if that is unknown.
func (h *Human) left() string {
	if h.active == 0 || h.window == 0 {
		return ""
	}
	return fmt.Sprintf(" · %d%% of the context left", history.Left(h.window, h.active))
}

// settingsText lists the thread settings that the user changed.
func settingsText(s event.Settings) string {
	var out []string
	for _, f := range []struct{ name, value string }{
		{"folder", s.Cwd}, {"next model", s.Model}, {"effort", s.Reasoning}, {"approval", s.Approval}, {"sandbox", s.Sandbox},
	} {
		if f.value != "" {
			out = append(out, f.name+" "+Clean(f.value))
		}
	}
	return strings.Join(out, " · ")
}

// costs returns the cost of a turn, and of the thread if that is higher; "" if both are unknown.
func costs(turn, thread event.Cost) string {
	var s string
	if text := turn.String(); text != "" {
		s = " · " + text
	}
	if text := thread.String(); text != "" && thread != turn {
		s += " · thread " + text
	}
	return s
}
