package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools that run agents. Their parameters and results are those of codex's tools `codex` and `codex-reply`.
const (
	toolAgent = "gantry"
	toolReply = "gantry-reply"
)

// agentParams are the arguments of the tool gantry.
type agentParams struct {
	Prompt    string         `json:"prompt" jsonschema:"The task of the agent."`
	Model     string         `json:"model,omitempty" jsonschema:"The model: the label of a model block of the configuration, or PROVIDER/NAME."`
	Cwd       string         `json:"cwd,omitempty" jsonschema:"The agent's folder. A relative path is relative to the folder of the server, in which it has to be."`
	Approval  string         `json:"approval-policy,omitempty" jsonschema:"When a person is asked for approval. Default: as configured."`
	Sandbox   string         `json:"sandbox,omitempty" jsonschema:"What commands may do without approval. Default: as configured."`
	Config    map[string]any `json:"config,omitempty" jsonschema:"Settings that override the configuration, by their names, such as history.compact_at_tokens."`
	Base      string         `json:"base-instructions,omitempty" jsonschema:"Instructions that replace the default ones."`
	Developer string         `json:"developer-instructions,omitempty" jsonschema:"Instructions in addition to the default ones."`
	Compact   string         `json:"compact-prompt,omitempty" jsonschema:"Instructions for summaries of long conversations."`
}

// replyParams are the arguments of the tool gantry-reply.
type replyParams struct {
	ThreadID string `json:"threadId" jsonschema:"The thread to continue, as the first call has returned it."`
	Prompt   string `json:"prompt" jsonschema:"The next message to the agent."`
}

// agentResult is the result of both tools.
type agentResult struct {
	ThreadID string   `json:"threadId" jsonschema:"The thread, for gantry-reply."`
	Content  string   `json:"content" jsonschema:"The agent's last message."`
	Refused  []string `json:"refused,omitempty" jsonschema:"What the agent was refused because nobody could be asked."`
}

// source is the front end of threads.
const source = "mcp"

// fullAccess is the sandbox mode without a sandbox, as codex calls it.
const fullAccess = "danger-full-access"

// addAgents adds the tools that run agents.
func (s *Server) addAgents() error {
	in, err := jsonschema.For[agentParams](nil)
	if err != nil {
		return err
	}
	in.Properties["approval-policy"].Enum = []any{"untrusted", "on-request", "never"}
	in.Properties["sandbox"].Enum = []any{"read-only", "workspace-write", fullAccess}
	no, yes := false, true
	hints := &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes, ReadOnlyHint: no}
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name: toolAgent, Title: "Gantry", InputSchema: in, Annotations: hints,
		Description: "Start an agent of gantry on a task in a folder, and return its last message when it is done. It reads and changes files and runs " +
			"commands. Continue the conversation with " + toolReply + " and the threadId of the result.",
	}, s.agent)
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name: toolReply, Title: "Gantry reply", Annotations: hints,
		Description: "Continue a conversation with an agent of gantry, and return its next message.",
	}, s.reply)
	return nil
}

var errNoPrompt = hint.New("the prompt is empty", "say what the agent is to do")

// agent is the tool gantry.
func (s *Server) agent(ctx context.Context, req *mcp.CallToolRequest, p agentParams) (*mcp.CallToolResult, agentResult, error) {
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, agentResult{}, errNoPrompt
	}
	start, err := s.start(p)
	if err == nil {
		start.Dir, err = s.within(start.Dir)
	}
	if err == nil {
		err = s.bounded(ctx, start.Dir, event.Settings{Approval: start.Approval, Sandbox: start.Sandbox}, start.Sets[len(s.cfg.Workspace.Sets):])
	}
	if err != nil {
		return nil, agentResult{}, err
	}
	t, err := s.cfg.Hub.Start(ctx, start)
	if err != nil {
		return nil, agentResult{}, shown(err)
	}
	return s.run(ctx, req, t, p.Prompt)
}

// bounded returns an error if settings of a thread in a folder are wider than the configuration.
func (s *Server) bounded(ctx context.Context, dir string, settings event.Settings, sets []string) error {
	if s.cfg.Widening == nil {
		return nil
	}
	wide := s.cfg.Widening(ctx, dir, sets)
	var own []string // judged by themselves, so that a narrow argument does not hide a wide setting of the same name
	for name, v := range map[string]string{"approval.policy": settings.Approval, "sandbox.mode": settings.Sandbox} {
		if v != "" {
			own = append(own, name+"="+literal(v))
		}
	}
	wide = append(wide, s.cfg.Widening(ctx, dir, own)...)
	if len(wide) == 0 {
		return nil
	}
	slices.Sort(wide)
	return errors.New(hint.Line(plain("this is more than the configuration of the server permits: "+strings.Join(slices.Compact(wide), ", "), maxLine),
		"leave it out; or whoever runs the server changes its configuration, or starts it with --allow-wider"))
}

// within returns the folder of a thread without symbolic links, so that it is the one that was judged, or an error if it is not in the
// server's.
func (s *Server) within(dir string) (string, error) {
	if s.cfg.Widening == nil || dir == s.cfg.Workspace.Dir {
		return dir, nil
	}
	own, err := filepath.EvalSymlinks(s.cfg.Workspace.Dir)
	if err != nil {
		return "", fmt.Errorf("the folder of the server: %w", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	rel := ""
	if err == nil {
		rel, err = filepath.Rel(own, real)
	}
	if err != nil || !filepath.IsLocal(rel) { // one answer for both, or clients could find out what exists elsewhere
		return "", errors.New(hint.Line(plain(fmt.Sprintf("there is no folder %s in %s, that of the server", dir, own), maxLine),
			"use a folder in that one; or whoever runs the server starts it in another folder, or with --allow-wider"))
	}
	return real, nil
}

// start converts the arguments of the tool gantry.
func (s *Server) start(p agentParams) (hub.StartParams, error) {
	out := hub.StartParams{
		Workspace: s.cfg.Workspace, Model: p.Model, Source: source, Approval: p.Approval, Sandbox: p.Sandbox,
		BaseInstructions: p.Base, DeveloperInstructions: p.Developer,
	}
	if p.Sandbox == fullAccess {
		out.Sandbox = "full-access"
	}
	if p.Cwd != "" {
		if out.Dir = p.Cwd; !filepath.IsAbs(out.Dir) {
			out.Dir = filepath.Join(s.cfg.Workspace.Dir, out.Dir)
		}
		out.Dir = filepath.Clean(out.Dir)
	}
	values := map[string]string{}
	if err := settings("", p.Config, values); err != nil {
		return out, err
	}
	if p.Compact != "" {
		values["history.compact_prompt"] = literal(p.Compact)
	}
	out.Sets = slices.Clone(out.Sets)
	for _, name := range slices.Sorted(maps.Keys(values)) { // the order distinguishes workspaces
		out.Sets = append(out.Sets, name+"="+values[name])
	}
	return out, nil
}

// settings adds the values of an object under their names, such as "a.b", as they are written in the configuration.
func settings(prefix string, object map[string]any, out map[string]string) error {
	for name, v := range object {
		if inner, ok := v.(map[string]any); ok {
			if err := settings(prefix+name+".", inner, out); err != nil {
				return err
			}
			continue
		}
		if strings.ContainsAny(name, "=\"\n") {
			return fmt.Errorf("config: %q is not the name of a setting", prefix+name)
		}
		out[prefix+name] = literal(v)
	}
	return nil
}

// literal returns a value as it is written in the configuration: JSON, in which nothing is a template.
func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil { // it comes from JSON
		return "null"
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(raw))
}

// reply is the tool gantry-reply.
func (s *Server) reply(ctx context.Context, req *mcp.CallToolRequest, p replyParams) (*mcp.CallToolResult, agentResult, error) {
	if strings.TrimSpace(p.Prompt) == "" {
		return nil, agentResult{}, errNoPrompt
	}
	id, err := event.ParseThreadID(p.ThreadID)
	if err != nil {
		return nil, agentResult{}, hint.New(fmt.Sprintf("%.80q is not the ID of a thread", p.ThreadID), "use the threadId that "+toolAgent+" has returned")
	}
	w := s.cfg.Workspace
	w.Dir = "" // that of the thread
	t, err := s.cfg.Hub.Resume(ctx, id, hub.ResumeParams{Workspace: w})
	if err != nil {
		return nil, agentResult{}, shown(err)
	}
	if t.Remote() && s.cfg.Widening != nil { // its process has a configuration of its own, which can't be judged here
		return nil, agentResult{}, hint.New(fmt.Sprintf("the thread %s runs in another process, whose configuration may permit more than the server's", id),
			"end it there first; or whoever runs the server starts it with --allow-wider")
	}
	settings, err := t.Settings(ctx) // it may be another front end's
	if err != nil {
		return nil, agentResult{}, shown(err)
	}
	if _, err := s.within(settings.Cwd); err != nil {
		return nil, agentResult{}, err
	}
	if err := s.bounded(ctx, settings.Cwd, settings, nil); err != nil {
		return nil, agentResult{}, err
	}
	return s.run(ctx, req, t, p.Prompt)
}

// shown returns an error for the client, with its next step.
func shown(err error) error {
	e := hub.ErrorOf(err)
	return errors.New(hint.Line(e.Message, e.Next))
}

// run runs a turn and returns what it has said.
func (s *Server) run(ctx context.Context, req *mcp.CallToolRequest, t *hub.Thread, prompt string) (*mcp.CallToolResult, agentResult, error) {
	out := agentResult{ThreadID: string(t.ID())}
	c, end, err := begin(ctx, s, req, t)
	defer end()
	if err != nil {
		return nil, out, err
	}
	leave, err := c.attend(ctx)
	if err != nil {
		return nil, out, shown(err)
	}
	defer leave()
	events, err := t.Follow(ctx, hub.FromNow, hub.Coalesce)
	if err != nil {
		return nil, out, shown(err)
	}
	defer events.Close()
	a, err := t.Submit(ctx, hub.Submission{Input: hub.Input{Parts: []llm.Part{&llm.Text{Text: prompt}}}, Durable: true})
	if err != nil {
		return nil, out, shown(err)
	}
	turn, err := c.turn(ctx, events, a.Turn)
	switch {
	case err != nil:
		return nil, out, shown(err)
	case turn.Status == event.TurnFailed && turn.Error != nil:
		err = errors.New(hint.Line(turn.Error.Message, turn.Error.Next))
	case turn.Status == event.TurnInterrupted:
		err = fmt.Errorf("the turn was interrupted: %s", turn.Reason)
	}
	out.Content, out.Refused = turn.LastMessage, c.refused
	result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: out.Content}}}
	if err != nil {
		result.IsError, result.Content = true, []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("%v (thread %s)", err, out.ThreadID)}}
	}
	for _, text := range out.Refused {
		result.Content = append(result.Content, &mcp.TextContent{Text: text})
	}
	return result, out, nil
}
