// Package event is gantry's event model: everything that happens in a thread is a typed event, in one order.
//
// It owns: the event types, their JSON form, identities, and which events are durable. It must not know: which packages
// produce, store or display an event.
//
// Durable events have a sequence number (1, 2, 3 … per thread, without gaps) and are stored. Transient events, such as deltas,
// have the number 0 and are only delivered. Start with [Event] and [Body].
package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/uuid"
)

// Identities. Each is an opaque string; threads, turns and items are UUIDv7.
type (
	ThreadID string
	TurnID   string
	CallID   string
	ItemID   string
)

// NewThreadID, NewTurnID and NewItemID return new identities, which sort by time.
func NewThreadID() ThreadID { return ThreadID(newID()) }
func NewTurnID() TurnID     { return TurnID(newID()) }
func NewItemID() ItemID     { return ItemID(newID()) }

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// ParseThreadID parses a UUID in its usual form.
func ParseThreadID(s string) (ThreadID, error) {
	u, err := uuid.Parse(s)
	if err != nil {
		return "", fmt.Errorf("thread id %q: not a UUID", s)
	}
	return ThreadID(u.String()), nil
}

// maxThreadIDBytes is much more than the 36 bytes of a UUID.
const maxThreadIDBytes = 64

// Check returns an error if the ID can't be part of a path: it may contain only letters, digits, dashes and underscores.
func (id ThreadID) Check() error {
	ok := id != "" && len(id) <= maxThreadIDBytes
	for i := 0; ok && i < len(id); i++ {
		c := id[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return fmt.Errorf("thread id %q: not an id", id)
	}
	return nil
}

// Event is one thing that happened.
type Event struct {
	Seq    uint64 // 0: transient
	Thread ThreadID
	Turn   TurnID // empty outside a turn
	Time   time.Time
	Body   Body
}

// Body is the content of an event. All types of this package that have a Kind implement it.
type Body interface {
	Kind() string
	durable() bool
}

// Durable reports whether e is stored.
func (e Event) Durable() bool { return e.Body.durable() }

type eventJSON struct {
	Seq    uint64          `json:"seq,omitempty"`
	Thread ThreadID        `json:"thread,omitempty"`
	Turn   TurnID          `json:"turn,omitempty"`
	Time   time.Time       `json:"time"`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
}

// MarshalJSON implements [json.Marshaler].
func (e Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil) }

// UnmarshalJSON implements [json.Unmarshaler]. Events of unknown kinds become [Unknown].
func (e *Event) UnmarshalJSON(b []byte) error {
	var j eventJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	body, err := DecodeBody(j.Kind, j.Body)
	if err != nil {
		return err
	}
	*e = Event{j.Seq, j.Thread, j.Turn, j.Time, body}
	return nil
}

// DecodeBody decodes the body of an event of a kind. An unknown kind becomes [Unknown].
func DecodeBody(kind string, data []byte) (Body, error) {
	newBody, ok := bodies[kind]
	if !ok {
		return Unknown{Name: kind, Data: data}, nil
	}
	body, err := newBody(data)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", kind, err)
	}
	return body, nil
}

func decode[B Body](data []byte) (Body, error) {
	var b B
	err := json.Unmarshal(data, &b)
	return b, err
}

// bodies has a decoder for every kind; a test checks that it is complete.
var bodies = map[string]func([]byte) (Body, error){
	ThreadStarted{}.Kind():     decode[ThreadStarted],
	ThreadNamed{}.Kind():       decode[ThreadNamed],
	ThreadDescribed{}.Kind():   decode[ThreadDescribed],
	ThreadReverted{}.Kind():    decode[ThreadReverted],
	ThreadForked{}.Kind():      decode[ThreadForked],
	ThreadArchived{}.Kind():    decode[ThreadArchived],
	TurnStarted{}.Kind():       decode[TurnStarted],
	TurnEnded{}.Kind():         decode[TurnEnded],
	ModelChanged{}.Kind():      decode[ModelChanged],
	SettingsChanged{}.Kind():   decode[SettingsChanged],
	HistoryAdded{}.Kind():      decode[HistoryAdded],
	HistoryCompacted{}.Kind():  decode[HistoryCompacted],
	ContextUpdated{}.Kind():    decode[ContextUpdated],
	FeatureChanged{}.Kind():    decode[FeatureChanged],
	InputAccepted{}.Kind():     decode[InputAccepted],
	MailPosted{}.Kind():        decode[MailPosted],
	ItemStarted{}.Kind():       decode[ItemStarted],
	ItemCompleted{}.Kind():     decode[ItemCompleted],
	ItemDelta{}.Kind():         decode[ItemDelta],
	CallDecided{}.Kind():       decode[CallDecided],
	CallStarted{}.Kind():       decode[CallStarted],
	CallEnded{}.Kind():         decode[CallEnded],
	UsageReported{}.Kind():     decode[UsageReported],
	StreamRetried{}.Kind():     decode[StreamRetried],
	QuestionAsked{}.Kind():     decode[QuestionAsked],
	QuestionResolved{}.Kind():  decode[QuestionResolved],
	SessionOpened{}.Kind():     decode[SessionOpened],
	SessionOutput{}.Kind():     decode[SessionOutput],
	SessionExited{}.Kind():     decode[SessionExited],
	SessionControlled{}.Kind(): decode[SessionControlled],
	Notice{}.Kind():            decode[Notice],
	FilesKept{}.Kind():         decode[FilesKept],
	FilesChanged{}.Kind():      decode[FilesChanged],
	TurnDiff{}.Kind():          decode[TurnDiff],
	ReviewStarted{}.Kind():     decode[ReviewStarted],
	ReviewEnded{}.Kind():       decode[ReviewEnded],
	HookStarted{}.Kind():       decode[HookStarted],
	HookCompleted{}.Kind():     decode[HookCompleted],
	NetworkDecision{}.Kind():   decode[NetworkDecision],
	PluginEvent{}.Kind():       decode[PluginEvent],
	PluginState{}.Kind():       decode[PluginState],
	SourceChanged{}.Kind():     decode[SourceChanged],
}

// Unknown is the unchanged body of an event of a newer version.
type Unknown struct {
	Name string
	Data json.RawMessage
}

// MarshalJSON returns the body unchanged, so that forwarding an event does not wrap it.
func (u Unknown) MarshalJSON() ([]byte, error) {
	if len(u.Data) == 0 {
		return []byte("null"), nil
	}
	return u.Data, nil
}

// SourceReviewer is the source of a thread in which a reviewer works for another thread.
const SourceReviewer = "reviewer"

// ThreadStarted is the first event of a thread.
type ThreadStarted struct {
	Cwd         string   `json:"cwd"`
	Model       string   `json:"model"`    // name of the model block
	Provider    string   `json:"provider"` // label of the provider block
	ModelName   string   `json:"modelName"`
	HostVersion string   `json:"hostVersion,omitempty"`
	Source      string   `json:"source,omitempty"` // "exec", "tui", ...
	ForkedFrom  ThreadID `json:"forkedFrom,omitempty"`
	// CacheKey is the key of a fork's requests in its vendor's cache: that of the thread whose history it began with. Empty: its own ID.
	CacheKey string   `json:"cacheKey,omitempty"`
	Parent   ThreadID `json:"parent,omitempty"` // the thread that it works for; empty: for its user
	// Agent is set if the thread is an agent's that another agent spawned.
	Agent *Agent `json:"agent,omitempty"`
	// Inherited is the history that the thread begins with; nil: none.
	Inherited *Inherited `json:"inherited,omitempty"`
	// Instructions are the base instructions, which never change for the thread.
	Instructions string `json:"instructions,omitempty"`
	// DeveloperInstructions are further instructions of the client that started the thread, which never change either.
	DeveloperInstructions string `json:"developerInstructions,omitempty"`
	// Tools are tools of the client that started the thread. Forks have them too.
	Tools []ClientTool `json:"tools,omitempty"`
	// Ephemeral means that the thread is not stored.
	Ephemeral bool `json:"ephemeral,omitempty"`
}

// ClientTool is a tool that clients of the thread implement.
type ClientTool struct {
	Namespace   string          `json:"namespace,omitempty"`
	About       string          `json:"about,omitempty"` // describes the namespace
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Deferred    bool            `json:"deferred,omitempty"` // models have to search for it
}

// ThreadNamed gives the thread a name.
type ThreadNamed struct {
	Name string `json:"name"`
}

// TurnStarted begins a turn.
type TurnStarted struct {
	Cwd           string `json:"cwd"`
	Model         string `json:"model"`
	Provider      string `json:"provider"`
	ModelName     string `json:"modelName"`
	ContextWindow int64  `json:"contextWindow,omitempty"`
	Approval      string `json:"approval,omitempty"`
	Sandbox       string `json:"sandbox,omitempty"`
	Resumed       bool   `json:"resumed,omitempty"`
	// ByMail: the turn was started only by mail of other agents. Parent is the turn in which all of that mail was written; it is
	// empty if there were several turns, or if the mail does not name one.
	ByMail bool   `json:"byMail,omitempty"`
	Parent TurnID `json:"parent,omitempty"`
}

// Selection names a model.
type Selection struct {
	Model     string `json:"model"`     // name of the model block, or PROVIDER/NAME without one
	Provider  string `json:"provider"`  // label of the provider block
	ModelName string `json:"modelName"` // the provider's name for it
}

// ModelChanged says that another model is used from this turn on, because the user chose it or the configuration changed.
type ModelChanged struct {
	From Selection `json:"from"`
	To   Selection `json:"to"`
}

// TurnStatus is the result of a turn.
type TurnStatus string

// Results of a turn.
const (
	TurnCompleted   TurnStatus = "completed"
	TurnFailed      TurnStatus = "failed"
	TurnInterrupted TurnStatus = "interrupted"
)

// TurnEnded ends a turn. Everything that the turn has started ended before it.
type TurnEnded struct {
	Status      TurnStatus `json:"status"`
	Error       *Problem   `json:"error,omitempty"`
	LastMessage string     `json:"lastMessage,omitempty"`
	Usage       Tokens     `json:"usage"` // of the whole thread so far
	TurnUsage   Tokens     `json:"turnUsage"`
	Below       Tokens     `json:"below,omitzero"` // used so far by the agents below the thread
	DurationMS  int64      `json:"durationMs"`
	Reason      string     `json:"reason,omitempty"` // of an interruption
}

// Problem is an error for people.
type Problem struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"` // an [llm.ErrorCode], or "budget", "turn-limit", "turn-time", "loop" or "internal"
	Next    string `json:"next,omitempty"`
	Status  int    `json:"status,omitempty"` // HTTP status of the provider's answer; 0: none
}

// Tokens are counts of tokens, and their cost. Unreported counts are not included.
type Tokens struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`
	Total      int64 `json:"total"`
	Cost       Cost  `json:"cost,omitzero"`
}

// Add returns the sum of two counts.
func (t Tokens) Add(u Tokens) Tokens {
	return Tokens{
		Input: t.Input + u.Input, CacheRead: t.CacheRead + u.CacheRead, CacheWrite: t.CacheWrite + u.CacheWrite,
		Output: t.Output + u.Output, Reasoning: t.Reasoning + u.Reasoning, Total: t.Total + u.Total, Cost: t.Cost.Add(u.Cost),
	}
}

// Max returns the maximum of each count.
func (t Tokens) Max(u Tokens) Tokens {
	return Tokens{
		Input: max(t.Input, u.Input), CacheRead: max(t.CacheRead, u.CacheRead), CacheWrite: max(t.CacheWrite, u.CacheWrite),
		Output: max(t.Output, u.Output), Reasoning: max(t.Reasoning, u.Reasoning), Total: max(t.Total, u.Total), Cost: t.Cost.Max(u.Cost),
	}
}

// HistoryAdded appends messages to the history that the model sees.
type HistoryAdded struct {
	Messages []llm.Message `json:"messages"`
}

// ItemStarted shows an item. [ItemCompleted] has its final state.
type ItemStarted struct {
	Item Item `json:"item"`
}

// ItemCompleted ends an item.
type ItemCompleted struct {
	Item Item `json:"item"`
}

// DeltaKind is the part of an item that an [ItemDelta] continues.
type DeltaKind string

// The kinds of deltas.
const (
	DeltaText      DeltaKind = "text"
	DeltaReasoning DeltaKind = "reasoning"
	DeltaOutput    DeltaKind = "output"
	DeltaProgress  DeltaKind = "progress" // Text replaces the last progress line
	DeltaNote      DeltaKind = "note"
	// DeltaInput is what the model writes into the input of a tool that takes a text, or into the JSON object around that text. Item is the
	// ID of the call, whose item starts when the input is complete. Only the beginning of a long input is published.
	DeltaInput DeltaKind = "input"
)

// ItemDelta continues an item at a byte offset. It is transient.
type ItemDelta struct {
	Item   ItemID    `json:"item"`
	Delta  DeltaKind `json:"delta"`
	Offset int64     `json:"offset"`
	Text   string    `json:"text"`
	Raw    bool      `json:"raw,omitempty"` // as in [Item]
}

// CallStarted is the journal entry of a call. It is committed before the call can have a side effect.
type CallStarted struct {
	Call        CallID          `json:"call"`
	Item        ItemID          `json:"item,omitempty"`
	Plugin      string          `json:"plugin"`
	Namespace   string          `json:"namespace,omitempty"`
	Tool        string          `json:"tool"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Text        string          `json:"text,omitempty"` // of a freeform tool
	Effects     []Effect        `json:"effects,omitempty"`
	ReadOnly    bool            `json:"readOnly,omitempty"`
	GrantDigest string          `json:"grantDigest,omitempty"`
	Attempt     uint32          `json:"attempt"`
	Parents     []CallID        `json:"parents,omitempty"`
}

// CallDecided says why a call may run or not. It is published before the call starts, for effects that are only discovered while it
// runs, and before it is retried outside its sandbox.
type CallDecided struct {
	Call    CallID `json:"call"`
	Allowed bool   `json:"allowed"`
	// Verdict is the policy's result: "run", "ask" or "forbid".
	Verdict string `json:"verdict"`
	// By is the source of the final decision: "policy", "user", "hook", "reviewer", "remembered" for an earlier answer that still
	// applies, "nobody" if no client could answer, "timeout" if none did in time, or "cancelled".
	By string `json:"by"`
	// Answer is the answer to the question, such as "approve_session".
	Answer string `json:"answer,omitempty"`
	// Reason is the policy's reason.
	Reason string `json:"reason,omitempty"`
	// Rules are the positions of the rules that determined the decision: "PATH:LINE".
	Rules []string `json:"rules,omitempty"`
	// Unsandboxed says that the call runs outside its sandbox.
	Unsandboxed bool `json:"unsandboxed,omitempty"`
}

// Outcome is the result of a call.
type Outcome string

// Outcomes of a call. OutcomeUnknown means that the host ended while the call was running.
const (
	OutcomeOK      Outcome = "ok"
	OutcomeError   Outcome = "error"
	OutcomeAborted Outcome = "aborted"
	OutcomeDenied  Outcome = "denied"
	OutcomeUnknown Outcome = "unknown"
)

// CallEnded closes the journal entry of a call.
type CallEnded struct {
	Call       CallID  `json:"call"`
	Outcome    Outcome `json:"outcome"`
	DurationMS int64   `json:"durationMs"`
	Session    string  `json:"session,omitempty"`
	Message    string  `json:"message,omitempty"`
	// Result is the result for the history, which may get it much later: the answer may still be streaming, and earlier calls may
	// still be running. It is stored here so that a crash in between loses nothing. It is nil for nested calls.
	Result *llm.ToolResult `json:"result,omitempty"`
}

// UsageReported follows each answer of the model.
type UsageReported struct {
	ResponseID string `json:"responseId,omitempty"`
	// Call is the call in which a plugin queried the model; it is empty if the turn did.
	Call CallID `json:"call,omitempty"`
	// Provider and ModelName identify the model that answered.
	Provider  string    `json:"provider,omitempty"`
	ModelName string    `json:"modelName,omitempty"`
	Usage     llm.Usage `json:"usage"`
	// CostUSD is the cost of this answer; nil: unknown.
	CostUSD       *float64 `json:"costUsd,omitempty"`
	Turn          Tokens   `json:"turn"`
	Total         Tokens   `json:"total"`
	ContextWindow int64    `json:"contextWindow,omitempty"` // usable part of the model's window
	// Active is the minimum number of tokens in the turn's next request; 0: unknown.
	Active int64 `json:"active,omitempty"`
}

// StreamRetried says that the model is queried again.
type StreamRetried struct {
	Busy    bool   `json:"busy,omitempty"` // the vendor accepts no request at the moment, and is waited for
	Attempt int    `json:"attempt"`        // of Max, from 1
	Max     int    `json:"max"`
	DelayMS int64  `json:"delayMs"`
	Cause   string `json:"cause"`
	Begun   bool   `json:"begun,omitempty"` // the answer had begun; its complete items are kept
	// Offline: the provider can't be reached. Waiting for it does not count as an attempt: Attempt and Max are 0.
	Offline bool `json:"offline,omitempty"`
	// Code is the [llm.ErrorCode] of the failure, and Status its HTTP status; empty or 0: unknown.
	Code   string `json:"code,omitempty"`
	Status int    `json:"status,omitempty"`
}

// QuestionKind is the subject of a question.
type QuestionKind string

// Kinds of questions.
const (
	QuestionApproval QuestionKind = "approval"
	QuestionChoice   QuestionKind = "choice"
	QuestionForm     QuestionKind = "form"
	QuestionURL      QuestionKind = "url"
	// QuestionPermissions requests permissions for later calls. The answer's Data may grant a subset, in the form of the request.
	QuestionPermissions QuestionKind = "permissions"
	// QuestionClientTool is a call of a [ClientTool], which a client answers, not a person. The answer's Data is a [ToolAnswer]; its end
	// is stored without it, because the call's result has it.
	QuestionClientTool QuestionKind = "client_tool"
)

// ForPerson reports whether a person answers such questions.
func (k QuestionKind) ForPerson() bool { return k != QuestionClientTool }

// ToolCall is what a client needs for a call of a [ClientTool].
type ToolCall struct {
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ToolAnswer is a client's answer to a call of its tool.
type ToolAnswer struct {
	Success bool          `json:"success"`
	Content []ToolContent `json:"content,omitempty"`
	// Refused says why the client could not run the tool; then the other fields are empty.
	Refused string `json:"refused,omitempty"`
}

// ToolContent is a part of the result: a text, or an image if MediaType is set.
type ToolContent struct {
	Text      string `json:"text,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Data      []byte `json:"data,omitempty"`
}

// QuestionAsked is a question to a person or a client. Every subscriber may answer; the first answer wins.
type QuestionAsked struct {
	ID    string       `json:"id"`
	About QuestionKind `json:"about"`
	Call  CallID       `json:"call,omitempty"`
	Chain []string     `json:"chain,omitempty"` // of a nested call: the tools from the model's call to this one
	// Plugin is the label of the plugin whose own question it is, and Source in whose name it asks, such as a server. The texts, options
	// and schema are then theirs. Empty: gantry asks.
	Plugin  string          `json:"plugin,omitempty"`
	Source  string          `json:"source,omitempty"`
	Title   string          `json:"title"`
	Message string          `json:"message,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	Changes string          `json:"changes,omitempty"` // of the tool's declaration since it was last called, as its plugin says
	Effects []Effect        `json:"effects,omitempty"`
	Wanted  []Effect        `json:"wanted,omitempty"` // effects beyond what the sandbox allows
	Options []string        `json:"options,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
	// Rule is the rule that the answer "approve_always" writes, and "deny_always" if it has a line for that. If it is nil, these
	// answers are not offered.
	Rule *RuleOffer `json:"rule,omitempty"`
	Tool *ToolCall  `json:"tool,omitempty"` // of QuestionClientTool
	// Agent is the path of the agent that asks, in the stream of the agent at the root; empty: the thread itself asks.
	Agent string `json:"agent,omitempty"`
}

// Asker names who puts a plugin's question, such as "mcp/github": the plugin's label comes first, so that no source has a name of
// gantry's or of another plugin.
func (q QuestionAsked) Asker() string {
	if q.Source == "" {
		return q.Plugin
	}
	return q.Plugin + "/" + q.Source
}

// Nesting says which tools a nested call comes from, such as "python → exec_command"; empty: the model made the call.
func (q QuestionAsked) Nesting() string { return strings.Join(q.Chain, " → ") }

// RuleOffer is a rule that would answer such questions permanently.
type RuleOffer struct {
	Prefix []string `json:"prefix,omitempty"` // commands that begin with these words
	Host   string   `json:"host,omitempty"`   // or: a host that may be reached
	Line   string   `json:"line"`             // the line for the rules file
	Deny   string   `json:"deny,omitempty"`   // the line that denies it; empty: not offered
	File   string   `json:"file"`
}

// QuestionResolved ends a question. By: "user", "reviewer", "policy", "hook", "cancelled", or "timeout" if no one answered in time.
type QuestionResolved struct {
	ID     string          `json:"id"`
	Answer string          `json:"answer,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	By     string          `json:"by"`
}

// SessionOpened says that a process continues to run after its call.
type SessionOpened struct {
	Session string `json:"session"`
	Call    CallID `json:"call"`
	Plugin  string `json:"plugin"`
	Title   string `json:"title,omitempty"`
}

// SessionOutput is a session's output between calls. It is transient.
type SessionOutput struct {
	Session string `json:"session"`
	Offset  int64  `json:"offset"`
	Text    string `json:"text"`
}

// SessionExited ends a session. How: "exited", "denied" or "lost".
type SessionExited struct {
	Session  string `json:"session"`
	How      string `json:"how"`
	ExitCode int32  `json:"exitCode"`
	// Denied is what the sandbox denied, if How is "denied".
	Denied *Denial `json:"sandboxDenied,omitempty"`
	// Output is the beginning of the output that was published as [SessionOutput], limited in size.
	Output string `json:"output,omitempty"`
}

// SessionControlled says that a person has taken control of a session, or has given it back. In between, calls that work on the session
// wait.
type SessionControlled struct {
	Session string `json:"session"`
	Plugin  string `json:"plugin"`
	Person  bool   `json:"person"` // a person has control; false: the agent
}

// Notice is a message for people. Level is "info", "warning" or "error".
type Notice struct {
	Level string `json:"level"`
	Text  string `json:"text"`
	Next  string `json:"next,omitempty"`
	// Executable lists files that other programs execute; the text names only some of them.
	Executable []ExecutableFile `json:"executable,omitempty"`
	More       int              `json:"more,omitempty"` // number of further files
}

// ExecutableFile is a file that commands have created or changed, and that other programs execute or read as configuration.
type ExecutableFile struct {
	Path     string `json:"path"`
	MovedTo  string `json:"movedTo,omitempty"`  // empty: it was not moved
	Disarmed bool   `json:"disarmed,omitempty"` // permissions or content were removed from it
	Why      string `json:"why"`
}

// PluginEvent is an event that a plugin defines.
type PluginEvent struct {
	Plugin    string          `json:"plugin"`
	Name      string          `json:"name"`
	Payload   json.RawMessage `json:"payload,omitempty"`
	Transient bool            `json:"transient,omitempty"`
}

// PluginState is the state of a plugin. It is host-wide, with an empty thread, and transient.
type PluginState struct {
	Plugin     string `json:"plugin"`
	State      string `json:"state"`
	Generation uint64 `json:"generation"`
	Message    string `json:"message,omitempty"`
}

// SourceChanged is the state of a source of tools, such as an MCP server. It is host-wide: every running thread gets it, outside of
// turns. It is transient.
type SourceChanged struct {
	Plugin   string `json:"plugin"`
	Source   string `json:"source"`
	State    string `json:"state"`           // "starting", "ready", "needs_login" or "failed"
	Title    string `json:"title,omitempty"` // the source's own
	Message  string `json:"message,omitempty"`
	Required bool   `json:"required,omitempty"` // the first turn of a thread waits for it, and fails without it
	// Prompts are templates of messages that the source offers to people. The plugin's command "prompt" fills one in.
	Prompts   []SourcePrompt `json:"prompts,omitempty"`
	Resources bool           `json:"resources,omitempty"` // the source has resources, which commands of the plugin list and read
}

// SourcePrompt is a prompt of a source.
type SourcePrompt struct {
	Name        string                 `json:"name"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Arguments   []SourcePromptArgument `json:"arguments,omitempty"`
}

// SourcePromptArgument is an argument of a prompt. Its value is a text.
type SourcePromptArgument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
}

func (u Unknown) Kind() string         { return u.Name }
func (ThreadStarted) Kind() string     { return "thread.started" }
func (ThreadNamed) Kind() string       { return "thread.named" }
func (TurnStarted) Kind() string       { return "turn.started" }
func (TurnEnded) Kind() string         { return "turn.ended" }
func (ModelChanged) Kind() string      { return "model.changed" }
func (HistoryAdded) Kind() string      { return "history.added" }
func (ItemStarted) Kind() string       { return "item.started" }
func (ItemCompleted) Kind() string     { return "item.completed" }
func (ItemDelta) Kind() string         { return "item.delta" }
func (CallDecided) Kind() string       { return "call.decided" }
func (CallStarted) Kind() string       { return "call.started" }
func (CallEnded) Kind() string         { return "call.ended" }
func (UsageReported) Kind() string     { return "usage.reported" }
func (StreamRetried) Kind() string     { return "stream.retried" }
func (QuestionAsked) Kind() string     { return "question.asked" }
func (QuestionResolved) Kind() string  { return "question.resolved" }
func (SessionOpened) Kind() string     { return "session.opened" }
func (SessionOutput) Kind() string     { return "session.output" }
func (SessionExited) Kind() string     { return "session.exited" }
func (SessionControlled) Kind() string { return "session.controlled" }
func (Notice) Kind() string            { return "notice" }
func (PluginEvent) Kind() string       { return "plugin.event" }
func (PluginState) Kind() string       { return "plugin.state" }
func (SourceChanged) Kind() string     { return "source.changed" }

func (Unknown) durable() bool           { return true }
func (ThreadStarted) durable() bool     { return true }
func (ThreadNamed) durable() bool       { return true }
func (TurnStarted) durable() bool       { return true }
func (TurnEnded) durable() bool         { return true }
func (ModelChanged) durable() bool      { return true }
func (HistoryAdded) durable() bool      { return true }
func (ItemStarted) durable() bool       { return true }
func (ItemCompleted) durable() bool     { return true }
func (ItemDelta) durable() bool         { return false }
func (CallDecided) durable() bool       { return true }
func (CallStarted) durable() bool       { return true }
func (CallEnded) durable() bool         { return true }
func (UsageReported) durable() bool     { return true }
func (StreamRetried) durable() bool     { return true }
func (QuestionAsked) durable() bool     { return true }
func (QuestionResolved) durable() bool  { return true }
func (SessionOpened) durable() bool     { return true }
func (SessionOutput) durable() bool     { return false }
func (SessionExited) durable() bool     { return true }
func (SessionControlled) durable() bool { return true }
func (Notice) durable() bool            { return true }
func (e PluginEvent) durable() bool     { return !e.Transient }
func (PluginState) durable() bool       { return false }
func (SourceChanged) durable() bool     { return false }
