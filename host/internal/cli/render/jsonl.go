package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// jsonl writes a thread's events in the format of codex's exec, so that its SDKs can read them. Item IDs are item_0, item_1, … in
// the order of first appearance; kinds that the format lacks get no number.
type jsonl struct {
	out     io.Writer
	numbers map[event.ItemID]string
	open    []event.ItemID // started and not completed, in order
	items   map[event.ItemID]event.Item
	thread  event.ThreadID
	agents  map[event.CallID]event.ThreadID // that calls are about
	plan    *event.Item                     // of the turn: the last one, under the ID of the first; nil: there is none
	err     error
}

func newJSONL(w io.Writer) *jsonl {
	return &jsonl{out: w, numbers: map[event.ItemID]string{}, items: map[event.ItemID]event.Item{}, agents: map[event.CallID]event.ThreadID{}}
}

func (j *jsonl) write(v any) {
	if j.err != nil {
		return
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if j.err = enc.Encode(v); j.err == nil {
		_, j.err = io.WriteString(j.out, b.String())
	}
}

type jsonlError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Started writes the first line.
func (j *jsonl) Started(id event.ThreadID) {
	j.thread = id
	j.write(struct {
		Type   string         `json:"type"`
		Thread event.ThreadID `json:"thread_id"`
	}{"thread.started", id})
}

// Event writes the lines for an event.
func (j *jsonl) Event(e event.Event) error {
	switch b := e.Body.(type) {
	case event.TurnStarted:
		j.write(struct {
			Type string `json:"type"`
		}{"turn.started"})
	case event.ItemStarted:
		if startsVisibly(b.Item) {
			j.open = append(j.open, b.Item.ID)
			j.item("item.started", b.Item)
		}
		j.items[b.Item.ID] = b.Item
	case event.ItemCompleted:
		j.close(b.Item.ID)
		if b.Item.Type == event.ItemPlan {
			j.planned(b.Item)
			break
		}
		j.item("item.completed", b.Item)
	case event.StreamRetried:
		if b.Max > 0 {
			j.write(jsonlError{"error", fmt.Sprintf("Reconnecting... %d/%d (%s)", b.Attempt, b.Max, b.Cause)})
		}
	case event.Notice:
		if b.Level != "info" {
			j.note(b.Text)
		}
	case event.TurnEnded:
		j.turnEnded(b)
	}
	return j.err
}

// startsVisibly reports whether an item's start is written. Messages and reasoning appear only when complete.
func startsVisibly(it event.Item) bool {
	switch it.Type {
	case event.ItemCommand, event.ItemCode, event.ItemFileChange, event.ItemMCPCall, event.ItemTool, event.ItemWebSearch, event.ItemBrowser:
		return true
	}
	return false
}

func (j *jsonl) close(id event.ItemID) {
	for i, o := range j.open {
		if o == id {
			j.open = append(j.open[:i], j.open[i+1:]...)
			return
		}
	}
}

func (j *jsonl) number(id event.ItemID) string {
	n, ok := j.numbers[id]
	if !ok {
		n = fmt.Sprintf("item_%d", len(j.numbers))
		j.numbers[id] = n
	}
	return n
}

func (j *jsonl) item(kind string, it event.Item) {
	j.activity(it)
	shape := j.agentCall(it)
	if shape == nil {
		shape = jsonlItem(it)
	}
	if shape == nil {
		return
	}
	shape["id"] = j.number(it.ID)
	if len(it.Artifacts) > 0 { // an extension of codex's format
		shape["artifacts"] = it.Artifacts
	}
	j.write(ordered{"type": kind, "item": shape})
}

func (j *jsonl) note(text string) {
	id := event.NewItemID()
	j.write(ordered{"type": "item.completed", "item": ordered{"id": j.number(id), "type": "error", "message": text}})
}

// ordered is an object whose keys are marshalled in a fixed order: id and type first.
type ordered map[string]any

// MarshalJSON implements [json.Marshaler].
func (o ordered) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	first := true
	put := func(k string) error {
		v, ok := o[k]
		if !ok {
			return nil
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		var val strings.Builder
		enc := json.NewEncoder(&val)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%q:%s", k, strings.TrimSuffix(val.String(), "\n"))
		return nil
	}
	for _, k := range []string{"id", "type", "item", "text", "message", "command", "aggregated_output", "exit_code", "changes",
		"server", "tool", "arguments", "result", "error", "items", "query", "action", "path", "artifacts",
		"sender_thread_id", "receiver_thread_ids", "prompt", "agents_states", "status"} {
		if err := put(k); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// jsonlItem returns an item in codex's format, or nil if the format has none.
func jsonlItem(it event.Item) ordered {
	switch it.Type {
	case event.ItemAgentMessage:
		if it.Status == event.StatusAborted || it.Status == event.StatusSuperseded {
			return nil // incomplete, or repeated by the model later
		}
		return ordered{"type": "agent_message", "text": it.Text}
	case event.ItemReasoning:
		if it.Text == "" || it.Status == event.StatusAborted {
			return nil
		}
		return ordered{"type": "reasoning", "text": it.Text}
	case event.ItemCommand, event.ItemCode: // codex's format has no code
		return ordered{
			"type": "command_execution", "command": protocol.ShellLine(it.Shell, it.Command), "aggregated_output": it.Output, "exit_code": it.ExitCode,
			"status": commandStatus(it),
		}
	case event.ItemFileChange:
		status := string(it.Status)
		if it.Status != event.StatusCompleted && it.Status != event.StatusInProgress {
			status = "failed"
		}
		return ordered{"type": "file_change", "changes": fileChanges(it), "status": status}
	case event.ItemMCPCall, event.ItemTool, event.ItemBrowser:
		status := "completed"
		var failure any
		switch it.Status {
		case event.StatusInProgress:
			status = "in_progress"
		case event.StatusCompleted:
		default:
			status = "failed"
			if it.Result == nil {
				failure = map[string]string{"message": cmp.Or(it.Error, it.Output)}
			}
		}
		server := it.Server
		if server == "" {
			server = it.Plugin
		}
		var result any
		if it.Result != nil {
			result = mcpResult(it.Result)
		} else if it.Status == event.StatusCompleted {
			result = map[string]any{"content": []map[string]string{{"type": "text", "text": it.Output}}, "structured_content": nil}
		}
		args := it.Arguments
		if args == nil {
			args = json.RawMessage("{}")
		}
		return ordered{
			"type": "mcp_tool_call", "server": server, "tool": it.Tool, "arguments": args, "result": result, "error": failure,
			"status": status,
		}
	case event.ItemPlan:
		return todoList(it)
	case event.ItemWebSearch:
		return ordered{"type": "web_search", "query": it.Query, "action": searchAction(it)}
	case event.ItemImage:
		if len(it.Artifacts) > 0 { // otherwise codex would omit it too
			return ordered{"type": "image_view", "path": it.Path, "status": string(it.Status)}
		}
	}
	return nil
}

// mcpResult returns the result of an MCP server's tool in codex's form. A missing structuredContent is null.
func mcpResult(raw json.RawMessage) any {
	var r struct {
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Content == nil {
		r.Content = []json.RawMessage{}
	}
	return map[string]any{"content": r.Content, "structured_content": r.Structured}
}

// searchAction returns what a search did, if the provider reported it.
func searchAction(it event.Item) any {
	var action struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(it.Arguments, &action) == nil && action.Type != "" {
		return it.Arguments
	}
	return map[string]string{"type": "search", "query": it.Query}
}

type jsonlChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

func fileChanges(it event.Item) []jsonlChange {
	out := make([]jsonlChange, 0, len(it.Changes))
	for _, c := range it.Changes {
		out = append(out, jsonlChange{c.Path, c.Kind})
	}
	return out
}

func commandStatus(it event.Item) string {
	switch it.Status {
	case event.StatusAborted:
		return "failed"
	default:
		return string(it.Status)
	}
}

func (j *jsonl) turnEnded(b event.TurnEnded) {
	// A command that outlives the turn is reported as still running rather than left open.
	for _, id := range append([]event.ItemID(nil), j.open...) {
		j.close(id)
		j.item("item.completed", j.items[id])
	}
	if j.plan != nil {
		j.item("item.completed", *j.plan)
		j.plan = nil
	}
	switch b.Status {
	case event.TurnCompleted:
		// turn_usage is an extension: codex's sums are those of the whole thread.
		j.write(struct {
			Type  string     `json:"type"`
			Usage jsonlUsage `json:"usage"`
			Turn  jsonlUsage `json:"turn_usage"`
		}{"turn.completed", usageOf(b.Usage), usageOf(b.TurnUsage)})
	case event.TurnFailed:
		message := b.Error.Message
		if b.Error.Next != "" {
			message = hint.Line(strings.TrimRight(message, ".!"), b.Error.Next)
		}
		j.write(jsonlError{"error", message})
		j.write(struct {
			Type  string            `json:"type"`
			Error map[string]string `json:"error"`
		}{"turn.failed", map[string]string{"message": message}})
	}
}

type jsonlUsage struct {
	Input      int64 `json:"input_tokens"`
	Cached     int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
	// Extensions of codex's format: the known cost, and whether it is incomplete.
	CostUSD    float64 `json:"cost_usd,omitempty"`
	Incomplete bool    `json:"cost_incomplete,omitempty"`
}

func usageOf(t event.Tokens) jsonlUsage {
	return jsonlUsage{t.Input, t.CacheRead, t.CacheWrite, t.Output, t.Reasoning, t.Cost.USD, t.Cost.USD > 0 && t.Cost.Unknown > 0}
}
