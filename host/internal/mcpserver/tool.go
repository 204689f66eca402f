package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// freeformSchema is the schema of tools whose input is a text.
const freeformSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// sourceGrace is how long the tools of plugins are waited for, as long as before a turn.
const sourceGrace = time.Second

// addTools adds the tools of plugins.
func (s *Server) addTools(ctx context.Context) error {
	if len(s.cfg.Tools) == 0 {
		return nil
	}
	o, err := s.cfg.Hub.Open(ctx, s.cfg.Workspace)
	if err != nil {
		return err
	}
	defer o.Close()
	names := map[string]bool{toolAgent: true, toolReply: true}
	for _, plugin := range s.cfg.Tools {
		tools, err := o.Tools(ctx, plugin, sourceGrace)
		if err != nil {
			return err
		}
		for _, d := range tools {
			name := d.Name
			if d.Namespace != "" {
				name = d.Namespace + "__" + d.Name
			}
			if names[name] {
				return hint.New(fmt.Sprintf("two tools have the name %s; one is of the plugin %q", name, plugin), "leave one of their plugins out of --tools")
			}
			names[name] = true
			schema := d.InputSchema
			if d.Freeform != nil {
				schema = json.RawMessage(freeformSchema)
			}
			t := &mcp.Tool{Name: name, Description: d.Description, InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: d.ReadOnly}}
			if out := structuredSchema(d); out != nil {
				t.OutputSchema = out
			}
			s.mcp.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return s.callTool(ctx, req, d)
			})
		}
	}
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "artifact", Title: "Artifact", URITemplate: artifactScheme + "://{thread}/{digest}", Description: "What a tool has stored, as its result names it.",
	}, s.artifact)
	return nil
}

// structuredSchema returns the schema of the structured content of a tool's results, which is an object; nil: it is not known.
func structuredSchema(d contract.Descriptor) json.RawMessage {
	var schema map[string]json.RawMessage
	if json.Unmarshal(d.OutputSchema, &schema) != nil || schema == nil {
		return nil
	}
	if slices.ContainsFunc(d.Effects, func(e contract.Effect) bool { _, served := e.(contract.ServiceEffect); return served }) {
		// It is that of the whole result of an MCP server.
		var whole struct {
			Properties struct {
				Structured map[string]json.RawMessage `json:"structuredContent"`
			} `json:"properties"`
		}
		if json.Unmarshal(d.OutputSchema, &whole) != nil || whole.Properties.Structured == nil {
			return nil
		}
		inner := whole.Properties.Structured
		for _, name := range []string{"$defs", "definitions"} {
			if defs, ok := schema[name]; ok {
				inner[name] = defs
			}
		}
		schema = inner
	}
	if string(schema["type"]) != `"object"` {
		return nil
	}
	out, err := json.Marshal(schema)
	if err != nil { // it comes from JSON
		return nil
	}
	return out
}

// toolThread is the thread in which the tools of one client run.
type toolThread struct {
	turn chan struct{} // one slot: a call opens the thread
	id   event.ThreadID
}

// threadOf returns the thread of a client's tools. It starts with the first call.
func (s *Server) threadOf(ctx context.Context, session *mcp.ServerSession) (*hub.Thread, error) {
	s.mu.Lock()
	own := s.threads[session]
	if own == nil {
		own = &toolThread{turn: make(chan struct{}, 1)}
		s.threads[session] = own
		go func() { // ends with the session
			_ = session.Wait() // why it ended does not matter
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.threads, session)
		}()
	}
	s.mu.Unlock()
	select {
	case own.turn <- struct{}{}:
		defer func() { <-own.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if own.id != "" {
		return s.cfg.Hub.Resume(ctx, own.id, hub.ResumeParams{Workspace: s.cfg.Workspace})
	}
	t, err := s.cfg.Hub.Start(ctx, hub.StartParams{Workspace: s.cfg.Workspace, Source: source})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own.id = t.ID()
	return t, nil
}

// callTool calls a tool of a plugin. What goes wrong is a result, so that the client's model reads it.
func (s *Server) callTool(ctx context.Context, req *mcp.CallToolRequest, d contract.Descriptor) (*mcp.CallToolResult, error) {
	out, err := s.runTool(ctx, req, d)
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: shown(err).Error()}}}, nil
	}
	return out, nil
}

func (s *Server) runTool(ctx context.Context, req *mcp.CallToolRequest, d contract.Descriptor) (*mcp.CallToolResult, error) {
	in := hub.ToolCall{ID: event.CallID("mcp_" + uuid.Must(uuid.NewV7()).String()), Namespace: d.Namespace, Name: d.Name, Input: string(req.Params.Arguments)}
	if d.Freeform != nil {
		var args struct{ Input string }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		in.Input, in.Freeform = args.Input, true
	} else if len(req.Params.Arguments) == 0 {
		in.Input = "{}"
	}
	t, err := s.threadOf(ctx, req.Session)
	if err != nil {
		return nil, err
	}
	c, end, err := begin(ctx, s, req, t)
	defer end()
	if err != nil {
		return nil, err
	}
	leave, err := c.attend(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	events, err := t.Follow(ctx, hub.FromNow, hub.Coalesce)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	following, stop := context.WithCancel(ctx)
	defer stop()
	var r hub.ToolResult
	var failed error
	c.asking.Go(func() { // follow waits for it
		if r, failed = t.CallTool(ctx, in); failed != nil {
			stop() // there may be no turn to follow
		}
	})
	c.follow(following, events)
	if failed != nil {
		return nil, failed
	}
	out := &mcp.CallToolResult{IsError: r.IsError, Content: contents(t.ID(), r)}
	var object map[string]any
	structured := r.Structured
	if c.served[in.ID] { // it is the whole result of the MCP server
		var server struct {
			Structured json.RawMessage `json:"structuredContent"`
		}
		if json.Unmarshal(structured, &server) == nil {
			structured = server.Structured
		}
	}
	if json.Unmarshal(structured, &object) == nil && object != nil {
		out.StructuredContent = structured
	} else if !out.IsError && structuredSchema(d) != nil { // clients reject a result without it, and what it says with it
		out.IsError = true
		out.Content = append(out.Content, &mcp.TextContent{Text: "The result has no structured content, although the tool declares it."})
	}
	for _, text := range c.refused {
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	return out, nil
}

// contents converts the parts of a result, and links to what the tool has stored.
func contents(thread event.ThreadID, r hub.ToolResult) []mcp.Content {
	out := []mcp.Content{}
	link := func(digest, name, mediaType string, size int64) {
		l := &mcp.ResourceLink{URI: fmt.Sprintf("%s://%s/%s", artifactScheme, thread, digest), Name: name, MIMEType: mediaType}
		if name == "" {
			l.Name = digest
		}
		if size > 0 {
			l.Size = &size
		}
		out = append(out, l)
	}
	for _, p := range r.Content {
		switch p := p.(type) {
		case *llm.Text:
			out = append(out, &mcp.TextContent{Text: p.Text})
		case *llm.Media:
			switch {
			case len(p.Data) > 0 && strings.HasPrefix(p.MediaType, "image/"):
				out = append(out, &mcp.ImageContent{Data: p.Data, MIMEType: p.MediaType})
			case len(p.Data) > 0 && strings.HasPrefix(p.MediaType, "audio/"):
				out = append(out, &mcp.AudioContent{Data: p.Data, MIMEType: p.MediaType})
			case p.Artifact != "":
				link(p.Artifact, p.Filename, p.MediaType, 0)
			case len(p.Data) > 0: // the address is required, but there is nothing else to read at it
				out = append(out, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
					URI: fmt.Sprintf("gantry-content://%s/%d", thread, len(out)), MIMEType: p.MediaType, Blob: p.Data,
				}})
			}
		}
	}
	for _, a := range r.Artifacts {
		link(a.SHA256, a.Name, a.MediaType, a.SizeBytes)
	}
	return out
}

// artifactScheme begins the URIs of artifacts.
const artifactScheme = "gantry-artifact"

// maxArtifact is the size in bytes of the largest artifact that a client can read.
const maxArtifact = 16 << 20

// artifact reads an artifact of the client's own thread.
func (s *Server) artifact(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	thread, digest, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, artifactScheme+"://"), "/")
	s.mu.Lock()
	own := s.threads[req.Session]
	var id event.ThreadID
	if own != nil {
		id = own.id
	}
	s.mu.Unlock()
	if own == nil || thread == "" || string(id) != thread {
		return nil, mcp.ResourceNotFoundError(req.Params.URI)
	}
	r, err := s.cfg.Hub.Artifact(ctx, id, digest)
	if err != nil {
		if hub.ErrorOf(err).Code == hub.NotFound {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return nil, shown(err)
	}
	defer r.Close()
	var content bytes.Buffer
	if n, err := io.Copy(&content, io.LimitReader(r, maxArtifact+1)); err != nil {
		return nil, shown(err)
	} else if n > maxArtifact {
		return nil, errors.New("the artifact is larger than 16 MiB: it can't be read over this protocol")
	}
	c := &mcp.ResourceContents{URI: req.Params.URI}
	if utf8.Valid(content.Bytes()) {
		c.Text = content.String()
	} else {
		c.Blob = content.Bytes()
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}
