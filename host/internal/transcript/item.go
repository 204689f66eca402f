package transcript

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/transcript/action"
	"github.com/gantry-agent/gantry/host/internal/transcript/patch"
)

// maxOutput bounds the beginning of an open item's output that is kept, in bytes, as the log bounds that of a completed one.
const maxOutput = 64 << 10

// item is an item of a turn: what its events have said so far.
type item struct {
	event.Item
	turn    string
	first   uint64 // first event of its turn
	started *int64
	ended   *int64 // nil: it is open
	cut     *int64 // when it was cut off; nil: it was not
	known   bool   // its session existed before it started
	session string // that the call has opened
	exit    *event.SessionExited

	text    []byte // of deltas: a message's text, or a command's output up to maxOutput
	length  int64  // of the text or of the output, with what was not kept
	begun   bool   // the first part of a thought was announced
	actions []protocol.CommandAction
}

// newItem returns an item that starts with the current event.
func (f *Fold) newItem(it event.Item) *item {
	return &item{Item: it, turn: f.turnID(), first: f.first, started: millis(f.event.Time), known: it.Session != ""}
}

// id returns the item's identity for clients: that of the call, which approvals name as well, or its own.
func (it *item) id() string {
	if it.Call != "" {
		return string(it.Call)
	}
	return string(it.ID)
}

// spoken reports whether the model says or thinks the item.
func (it *item) spoken() bool {
	return it.Type == event.ItemAgentMessage || it.Type == event.ItemReasoning
}

// said returns the text of a message or a thought.
func (it *item) said() string {
	switch {
	case it.Status == event.StatusSuperseded:
		return ""
	case it.ended == nil && it.Text == "":
		return string(it.text)
	}
	return it.Text
}

func (it *item) header() protocol.ItemHeader {
	return protocol.ItemHeader{ID: it.id(), StartedAtMs: it.started, CompletedAtMs: it.ended}
}

// shape returns the item in the protocol's form.
func (it *item) shape() protocol.ThreadItem {
	var b protocol.ItemBody
	switch it.Type {
	case event.ItemUserMessage, event.ItemMail:
		b = protocol.UserMessageItem{ItemHeader: it.header(), ClientID: optional(it.ClientID), Content: it.content()}
	case event.ItemAgentMessage:
		b = protocol.AgentMessageItem{ItemHeader: it.header(), Text: it.said(), Phase: it.phase()}
	case event.ItemReasoning:
		b = it.thought()
	case event.ItemCommand:
		b = it.command()
	case event.ItemCode:
		b = it.code()
	case event.ItemFileChange:
		b = protocol.FileChangeItem{ItemHeader: it.header(), Changes: it.changes(), Status: it.status()}
	case event.ItemMCPCall:
		b = it.mcpCall()
	case event.ItemWebSearch:
		b = protocol.WebSearchItem{ItemHeader: it.header(), Query: it.Query}
	case event.ItemImage:
		b = protocol.ImageViewItem{ItemHeader: it.header(), Path: it.Path}
	case event.ItemCompaction:
		b = protocol.ContextCompactionItem{ItemHeader: it.header()}
	case event.ItemEnteredReview:
		b = protocol.EnteredReviewModeItem{ItemHeader: it.header(), Review: it.Text}
	case event.ItemExitedReview:
		b = protocol.ExitedReviewModeItem{ItemHeader: it.header(), Review: it.findings()}
	case event.ItemAgentActivity:
		b = it.agentActivity()
	default: // tools, and items of later versions
		b = it.toolCall()
	}
	return protocol.ThreadItem{Body: b}
}

// thought returns an item of reasoning. A text is a summary, or the reasoning itself.
func (it *item) thought() protocol.ReasoningItem {
	r := protocol.ReasoningItem{ItemHeader: it.header(), Summary: []string{}, Content: []string{}}
	if it.Raw {
		r.Content = list(it.said())
	} else {
		r.Summary = list(it.said())
	}
	return r
}

// list returns a list of one text; an empty text is an empty list.
func list(text string) []string {
	if text == "" {
		return []string{}
	}
	return []string{text}
}

// content returns the parts of a user's message, or of another agent's mail.
func (it *item) content() []protocol.UserInput {
	out := []protocol.UserInput{}
	if it.Text != "" {
		out = append(out, protocol.UserInput{Body: protocol.TextInput{Text: it.Text}})
	}
	for _, name := range it.Images {
		out = append(out, image(name))
	}
	return out
}

func image(name string) protocol.UserInput {
	if len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" {
		return protocol.UserInput{Body: protocol.ImageInput{URL: event.ArtifactURL + name}}
	}
	return protocol.UserInput{Body: protocol.LocalImageInput{Path: name}}
}

func (it *item) phase() *protocol.MessagePhase {
	switch {
	case it.ended != nil && it.Status != event.StatusCompleted:
		return new(protocol.PhasePartial)
	case it.Phase == event.PhaseCommentary:
		return new(protocol.PhaseCommentary)
	}
	return nil
}

// status returns the status of an item that can be declined.
func (it *item) status() protocol.ItemStatus {
	switch {
	case it.ended == nil:
		return protocol.ItemInProgress
	case it.Status == event.StatusCompleted:
		return protocol.ItemCompleted
	case it.Status == event.StatusDeclined:
		return protocol.ItemDeclined
	}
	return protocol.ItemFailed
}

// callStatus returns the status of a call that can't be declined.
func (it *item) callStatus() protocol.ItemStatus {
	if s := it.status(); s != protocol.ItemDeclined {
		return s
	}
	return protocol.ItemFailed
}

func (it *item) duration() *int64 {
	if it.ended == nil {
		return nil
	}
	return new(*it.ended - *it.started)
}

func (it *item) command() protocol.CommandExecutionItem {
	if it.actions == nil {
		it.actions = action.Of(it.Command, it.Cwd)
	}
	c := protocol.CommandExecutionItem{
		ItemHeader: it.header(), Command: protocol.ShellLine(it.Shell, it.Command), Cwd: it.Cwd, Source: protocol.CommandAgent, Status: it.status(), CommandActions: it.actions,
		ExitCode: it.ExitCode, DurationMs: it.duration(),
	}
	if session := it.process(); session != "" {
		c.ProcessID, c.Source = &session, protocol.CommandUnifiedExecStartup
	}
	if it.known {
		c.Source = protocol.CommandUnifiedExecInteraction
	}
	if it.Plugin == event.PluginUser {
		c.Source = protocol.CommandUserShell
	}
	if out := it.output(); out != "" || it.ended != nil {
		c.AggregatedOutput = &out
	}
	return c
}

// code returns an item of code, which the protocol does not have, as a command. It is not the session's: that outlives the code.
func (it *item) code() protocol.CommandExecutionItem {
	c := protocol.CommandExecutionItem{
		ItemHeader: it.header(), Command: protocol.ShellLine(it.Shell, it.Command), Cwd: it.Cwd, Source: protocol.CommandAgent, Status: it.status(), DurationMs: it.duration(),
		CommandActions: []protocol.CommandAction{{Body: protocol.UnknownAction{Command: it.Command}}},
	}
	if out := it.output(); out != "" || it.ended != nil {
		c.AggregatedOutput = &out
	}
	return c
}

// process returns the session of a command.
func (it *item) process() string {
	if it.Session != "" {
		return it.Session
	}
	return it.session
}

// output returns the output of an item, or its beginning.
func (it *item) output() string {
	if it.ended == nil {
		return string(it.text)
	}
	return it.Output
}

func (it *item) changes() []protocol.FileUpdateChange {
	out := make([]protocol.FileUpdateChange, 0, len(it.Changes))
	for _, c := range it.Changes {
		change := protocol.FileUpdateChange{Path: c.Path, Diff: c.Diff, Kind: protocol.PatchChangeKind{Body: protocol.UpdatePatch{}}}
		switch {
		case c.Kind == "add":
			change.Kind.Body = protocol.AddPatch{}
		case c.Kind == "delete":
			change.Kind.Body = protocol.DeletePatch{}
		case c.MovedFrom != "":
			change.Path, change.Kind.Body = c.MovedFrom, protocol.UpdatePatch{MovePath: &c.Path}
		}
		out = append(out, change)
	}
	return out
}

func (it *item) mcpCall() protocol.MCPToolCallItem {
	c := protocol.MCPToolCallItem{
		ItemHeader: it.header(), Server: it.Server, Tool: it.Tool, Status: it.callStatus(), Arguments: arguments(it.Arguments), DurationMs: it.duration(),
	}
	switch {
	case it.Error != "":
		c.Error = &protocol.MCPToolError{Message: it.Error}
	case len(it.Result) > 0: // also one that the server calls an error, which makes the call a failed one
		c.Result = &protocol.MCPToolResult{}
		if json.Unmarshal(it.Result, c.Result) != nil || c.Result.Content == nil {
			c.Result.Content = []json.RawMessage{}
		}
	case c.Status == protocol.ItemCompleted:
		c.Result = &protocol.MCPToolResult{Content: []json.RawMessage{textContent(it.output())}}
	case c.Status == protocol.ItemFailed:
		c.Error = &protocol.MCPToolError{Message: it.output()}
	}
	return c
}

func textContent(text string) json.RawMessage {
	b, err := json.Marshal(map[string]string{"type": "text", "text": text})
	if err != nil { // strings always marshal
		panic("transcript: marshal text: " + err.Error())
	}
	return b
}

func (it *item) toolCall() protocol.DynamicToolCallItem {
	c := protocol.DynamicToolCallItem{
		ItemHeader: it.header(), Tool: it.Tool, Status: it.callStatus(), Arguments: arguments(it.Arguments), DurationMs: it.duration(),
	}
	if i := strings.LastIndexByte(it.Tool, '.'); i > 0 {
		c.Namespace, c.Tool = new(it.Tool[:i]), it.Tool[i+1:]
	}
	if it.ended != nil {
		c.Success = new(c.Status == protocol.ItemCompleted)
		c.ContentItems = []protocol.ToolContentItem{}
		if out := it.output(); out != "" {
			c.ContentItems = append(c.ContentItems, protocol.ToolContentItem{Body: protocol.InputTextContent{Text: out}})
		}
		for _, a := range it.Artifacts {
			if (it.Plugin == "" || it.Type == event.ItemBrowser) && strings.HasPrefix(a.MediaType, "image/") { // of a tool of a client, or of a page
				c.ContentItems = append(c.ContentItems, protocol.ToolContentItem{Body: protocol.InputImageContent{ImageURL: event.ArtifactURL + a.SHA256}})
			}
		}
	}
	return c
}

func arguments(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// findings returns the result of a review as text.
func (it *item) findings() string {
	switch {
	case it.Output != "":
		return it.Output
	case it.Review != nil && it.Review.Explanation != "": // of a version that did not store the text
		return it.Review.Explanation
	}
	return it.Text
}

// byID returns an open item of the running turn.
func (f *Fold) byID(id event.ItemID) *item {
	for i := len(f.items) - 1; i >= 0; i-- { // the last one is the most likely
		if f.items[i].ID == id {
			return f.items[i]
		}
	}
	return nil
}

// byCall returns the open item of a call.
func (f *Fold) byCall(id event.CallID) *item {
	i := slices.IndexFunc(f.items, func(it *item) bool { return it.Call == id })
	if i < 0 || id == "" {
		return nil
	}
	return f.items[i]
}

func (f *Fold) itemStarted(it event.Item) {
	if it.Type == event.ItemPlan {
		return // clients are told the plan, not its call
	}
	n := f.newItem(it)
	if n.spoken() {
		f.repeated()
	}
	f.items = append(f.items, n)
	f.announce(n)
}

func (f *Fold) announce(it *item) {
	emit(f, protocol.NotifyItemStarted, protocol.ItemStartedNotification{
		ThreadID: f.thread(), TurnID: it.turn, Item: it.shape(), StartedAtMs: *it.started,
	})
}

// itemCompleted ends an item. A user's message that a hook has blocked is not part of the conversation; a warning says why.
func (f *Fold) itemCompleted(done event.Item) {
	if done.Type == event.ItemPlan {
		planned(f, done)
		return
	}
	it := f.byID(done.ID)
	switch {
	case it != nil:
		f.items = slices.DeleteFunc(f.items, func(o *item) bool { return o == it })
	case done.Type == event.ItemUserMessage && done.Status == event.StatusDeclined:
		return
	case f.turn == nil && done.Type != event.ItemUserMessage && done.Type != event.ItemMail: // it has ended with its turn
		return
	default: // complete from the start
		it = f.newItem(done)
		f.announce(it)
	}
	if done.Command != it.Command || done.Cwd != it.Cwd {
		it.actions = nil
	}
	it.Item = done
	switch {
	case it.spoken() && done.Status == event.StatusAborted:
		it.cut = millis(f.event.Time)
		f.cutoff = append(f.cutoff, it)
	case it.Type == event.ItemCommand && done.Status != event.StatusAborted && !it.known && done.Session != "" && done.ExitCode == nil && it.exit == nil:
		f.keep(it)
	case it.exit != nil && done.Session == it.exit.Session:
		it.exited(*it.exit)
		f.finish(it)
	default:
		f.finish(it)
	}
}

// keep keeps a command open whose process outlives its call.
func (f *Fold) keep(it *item) {
	if f.sessions == nil {
		f.sessions = map[string]*item{}
	}
	it.text, it.length = []byte(it.Output), int64(len(it.Output))
	f.sessions[it.Session] = it
}

// finish ends an item with its current state.
func (f *Fold) finish(it *item) {
	if it.ended = it.cut; it.ended == nil {
		it.ended = millis(f.event.Time)
	}
	shape := it.shape()
	if m, ok := shape.Body.(protocol.AgentMessageItem); ok && it.Status == event.StatusCompleted && m.Text != "" {
		f.last = &m
	}
	emit(f, protocol.NotifyItemCompleted, protocol.ItemCompletedNotification{
		ThreadID: f.thread(), TurnID: it.turn, Item: shape, CompletedAtMs: *it.ended,
	})
}

// repeated ends the texts that were cut off: the model says them again.
func (f *Fold) repeated() {
	for _, it := range f.cutoff {
		it.Status = event.StatusSuperseded
		f.finish(it)
	}
	f.cutoff = nil
}

// endItems ends everything of the running turn that is open, except commands whose process goes on.
func (f *Fold) endItems() {
	for _, it := range f.cutoff {
		f.finish(it)
	}
	for _, it := range f.items {
		it.Status = event.StatusAborted
		f.finish(it)
	}
	f.items, f.cutoff = nil, nil
}

// delta continues an open item.
func (f *Fold) delta(d event.ItemDelta) {
	if d.Delta == event.DeltaInput {
		if changes := f.inputs.add(d, f.cwd); len(changes) > 0 {
			emit(f, protocol.NotifyFileChangePatchUpdated, protocol.FileChangePatchUpdatedNotification{
				ThreadID: f.thread(), TurnID: f.turnID(), ItemID: string(d.Item), Changes: changes,
			})
		}
		return
	}
	it := f.byID(d.Item)
	if it == nil || d.Text == "" {
		return
	}
	switch d.Delta {
	case event.DeltaText:
		text := it.unknown(d.Offset, d.Text)
		it.add(text)
		emit(f, protocol.NotifyAgentMessageDelta, protocol.AgentMessageDeltaNotification{ThreadID: f.thread(), TurnID: it.turn, ItemID: it.id(), Delta: text})
	case event.DeltaReasoning:
		if it.Raw = d.Raw; d.Raw {
			text := it.unknown(d.Offset, d.Text)
			it.add(text)
			emit(f, protocol.NotifyReasoningTextDelta, protocol.ReasoningTextDeltaNotification{ThreadID: f.thread(), TurnID: it.turn, ItemID: it.id(), Delta: text})
			return
		}
		if !it.begun {
			it.begun = true
			emit(f, protocol.NotifyReasoningSummaryPartAdded, protocol.ReasoningSummaryPartAddedNotification{ThreadID: f.thread(), TurnID: it.turn, ItemID: it.id()})
		}
		text := it.unknown(d.Offset, d.Text)
		it.add(text)
		emit(f, protocol.NotifyReasoningSummaryTextDelta, protocol.ReasoningSummaryTextDeltaNotification{ThreadID: f.thread(), TurnID: it.turn, ItemID: it.id(), Delta: text})
	case event.DeltaOutput:
		f.output(it, it.unknown(d.Offset, d.Text))
	}
}

// input is the input of a call while the model writes it.
type input struct {
	text []byte
	next int // size at which it is looked at again
}

// inputs are those that the model is writing, by call.
type inputs map[event.ItemID]*input

// add adds to the input of a call. If that is a patch, it returns the changes so far whenever the patch has grown by a quarter, so that all
// of them together are not much longer than the patch, and cost no more.
func (all *inputs) add(d event.ItemDelta, cwd string) []protocol.FileUpdateChange {
	in := (*all)[d.Item]
	if in == nil {
		if *all == nil {
			*all = inputs{}
		}
		in = &input{}
		(*all)[d.Item] = in
	}
	if d.Offset > int64(len(in.text)) { // the fold began within the input
		return nil
	}
	in.text = append(in.text[:d.Offset], d.Text...)
	if len(in.text) < in.next {
		return nil
	}
	in.next = len(in.text) + max(64, len(in.text)/4)
	return patch.Changes(string(in.text), cwd)
}

// unknown returns the part of a text at an offset that the item does not have yet.
func (it *item) unknown(offset int64, text string) string {
	it.length = max(it.length, offset) // what was lost is in the completed item
	if known := it.length - offset; known > 0 {
		text = text[min(known, int64(len(text))):]
	}
	return text
}

// add adds to the text of a message or a thought.
func (it *item) add(text string) {
	it.text = append(it.text, text...)
	it.length += int64(len(text))
}

// output adds to the output of a command or of code, and reports it. Outputs of other items are not shown before they end.
func (f *Fold) output(it *item, text string) {
	if text == "" {
		return
	}
	if it.Type == event.ItemCommand || it.Type == event.ItemCode {
		emit(f, protocol.NotifyCommandOutputDelta, protocol.CommandExecutionOutputDeltaNotification{
			ThreadID: f.thread(), TurnID: it.turn, ItemID: it.id(), Delta: text, Offset: new(uint64(it.length)),
		})
	}
	it.text = append(it.text, head(text, maxOutput-len(it.text))...)
	it.length += int64(len(text))
}

// head returns at most n bytes of a text, without a cut character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:max(n, 0)]
}

func (f *Fold) sessionOutput(b event.SessionOutput) {
	if it := f.sessions[b.Session]; it != nil {
		f.output(it, b.Text)
	}
}

// sessionExited ends the command of a session. If its call is still running, the call's end does.
func (f *Fold) sessionExited(b event.SessionExited) {
	if it := f.sessions[b.Session]; it != nil {
		delete(f.sessions, b.Session)
		it.exited(b)
		f.finish(it)
		return
	}
	for _, it := range f.items {
		if it.session == b.Session {
			it.exit = &b
		}
	}
}

// exited applies the end of the command's process. Unknown is -1, as for a process that was killed. Compatible with codex.
func (it *item) exited(b event.SessionExited) {
	code := b.ExitCode
	if b.How == "lost" {
		code = -1
	}
	it.ExitCode, it.Status = &code, event.StatusCompleted
	if code != 0 || b.How != "exited" {
		it.Status = event.StatusFailed
	}
	it.Output += head(b.Output, maxOutput-len(it.Output))
}

// Open returns the open items, with their text so far: those of the running turn, and commands whose process has outlived its call.
func (f *Fold) Open() []protocol.ThreadItem {
	open := []*item{}
	for _, s := range f.sessions {
		open = append(open, s)
	}
	open = append(append(open, f.cutoff...), f.items...)
	slices.SortStableFunc(open, func(a, b *item) int { return int(*a.started - *b.started) })
	out := make([]protocol.ThreadItem, len(open))
	for i, it := range open {
		out[i] = it.shape()
	}
	return out
}

// typed reports input for a running process.
func (f *Fold) typed(b event.CallStarted) {
	it := f.byCall(b.Call)
	if it == nil || !it.known || it.Type != event.ItemCommand || b.Attempt > 1 {
		return
	}
	for _, e := range b.Effects {
		if e.Type != "session_input" {
			continue
		}
		var in struct{ Text string }
		if json.Unmarshal(e.Data, &in) != nil || in.Text == "" {
			continue
		}
		to := it
		if s := f.sessions[it.Session]; s != nil {
			to = s
		}
		emit(f, protocol.NotifyTerminalInteraction, protocol.TerminalInteractionNotification{
			ThreadID: f.thread(), TurnID: to.turn, ItemID: to.id(), ProcessID: it.Session, Stdin: in.Text,
		})
	}
}
