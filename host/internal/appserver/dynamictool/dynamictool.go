// Package dynamictool translates between the protocol and gantry what concerns the tools that clients implement.
//
// It owns: the rules for the declarations of such tools, the form of their calls and of clients' answers, and which clients of a thread
// run its tools. It must not know: how a message reaches a client, how a thread calls its tools.
//
// Start with [Specs]. [Serving] knows the clients.
package dynamictool

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Limits of declarations, in characters; codex-compatible.
const (
	maxName        = 128
	maxNamespace   = 64
	maxDescription = 1024
)

// maxBytes limits the declarations of a thread in total, because most of them are part of each request to its models. Declarations beyond
// it are refused.
const maxBytes = 1 << 20

// reserved are the namespaces that clients can't use, because models know tools of their vendors there; codex-compatible.
var reserved = []string{
	"api_tool", "browser", "computer", "container", "file_search", "functions", "image_gen", "multi_tool_use", "python", "python_user_visible",
	"submodel_delegator", "terminal", "tool_search", "web",
}

// Specs converts declarations. The error is a [*protocol.ParamsError], which says where in the parameters of thread/start the problem is.
func Specs(declared []protocol.DynamicToolSpec) ([]event.ClientTool, error) {
	var out []event.ClientTool
	seen, total := map[string]bool{}, 0
	add := func(path string, f protocol.DynamicFunction, in protocol.DynamicNamespace) error {
		t := event.ClientTool{
			Namespace: in.Name, About: in.Description, Name: f.Name, Description: f.Description, InputSchema: f.InputSchema, Deferred: f.DeferLoading,
		}
		switch err := checkNames(path, f.Name, maxName, f.Description); {
		case err != nil:
			return err
		case seen[in.Name+"."+f.Name]:
			return problem(path+".name", "`%s` is declared twice", f.Name)
		case f.DeferLoading && in.Name == "":
			return problem(path+".deferLoading", "only tools in a namespace can be deferred")
		}
		schema, err := contract.ParseSchema(f.InputSchema)
		if err == nil && schema.Type != "object" {
			err = errors.New(`the type must be "object"`)
		}
		if err == nil {
			_, err = contract.Compile(schema)
		}
		if err != nil {
			return problem(path+".inputSchema", "%v", err)
		}
		if total += len(f.Description) + len(f.InputSchema); total > maxBytes {
			return problem(path, "the tools have more than %d bytes in total", maxBytes)
		}
		seen[in.Name+"."+f.Name] = true
		out = append(out, t)
		return nil
	}
	spaces := map[string]bool{}
	for i, d := range declared {
		path := fmt.Sprintf("dynamicTools[%d]", i)
		switch b := d.Body.(type) {
		case protocol.DynamicFunction:
			if err := add(path, b, protocol.DynamicNamespace{}); err != nil {
				return nil, err
			}
		case protocol.DynamicNamespace:
			switch err := checkNames(path, b.Name, maxNamespace, b.Description); {
			case err != nil:
				return nil, err
			case slices.Contains(reserved, b.Name):
				return nil, problem(path+".name", "the namespace `%s` is reserved", b.Name)
			case spaces[b.Name]:
				return nil, problem(path+".name", "the namespace `%s` is declared twice", b.Name)
			case len(b.Tools) == 0:
				return nil, problem(path+".tools", "a namespace needs at least one tool")
			}
			spaces[b.Name] = true
			for j, t := range b.Tools {
				f, _ := t.Body.(protocol.DynamicFunction) // there is nothing else
				if err := add(fmt.Sprintf("%s.tools[%d]", path, j), f, b); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

func problem(path, format string, args ...any) error {
	return &protocol.ParamsError{Path: path, Problem: fmt.Sprintf(format, args...)}
}

// checkNames checks the name and the description of a tool or a namespace.
func checkNames(path, name string, limit int, description string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if name == "" || len(name) > limit || strings.Trim(name, letters) != "" {
		return problem(path+".name", "invalid name `%.80s`: use 1 to %d letters, digits, underscores and dashes", name, limit)
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		return problem(path+".description", "it has %d characters; the maximum is %d", n, maxDescription)
	}
	return nil
}

// Params returns the parameters of the request for a call.
func Params(thread, turn string, call event.CallID, t event.ToolCall) protocol.DynamicToolCallParams {
	p := protocol.DynamicToolCallParams{ThreadID: thread, TurnID: turn, CallID: string(call), Tool: t.Name, Arguments: t.Arguments}
	if t.Namespace != "" {
		p.Namespace = &t.Namespace
	}
	return p
}

// Answer converts a client's result. A result that makes no sense refuses the call.
func Answer(result json.RawMessage) event.ToolAnswer {
	var r protocol.DynamicToolCallResponse
	if err := protocol.Unmarshal(result, &r); err != nil {
		return event.ToolAnswer{Refused: "invalid result: " + err.Error()}
	}
	out := event.ToolAnswer{Success: r.Success}
	left := picture.MaxTotal
	for _, item := range r.ContentItems {
		switch b := item.Body.(type) {
		case protocol.InputTextContent:
			out.Content = append(out.Content, event.ToolContent{Text: b.Text})
		case protocol.InputImageContent:
			part, err := imageOf(b.ImageURL, left)
			if err != nil { // the model can do without
				part = event.ToolContent{Text: fmt.Sprintf("[image left out: %v]", err)}
			}
			left -= len(part.Data)
			out.Content = append(out.Content, part)
		}
	}
	return out
}

// imageOf decodes an image of at most limit bytes.
func imageOf(url string, limit int) (event.ToolContent, error) {
	head, data, ok := strings.Cut(url, ",")
	if !ok || !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") {
		return event.ToolContent{}, errors.New("it is not a data URL with base64")
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return event.ToolContent{}, fmt.Errorf("its data URL is not base64: %w", err)
	}
	if len(raw) > limit {
		return event.ToolContent{}, fmt.Errorf("the images of a result must not exceed %d MiB in total", picture.MaxTotal>>20)
	}
	mediaType, err := picture.Check(raw)
	if err != nil {
		return event.ToolContent{}, err
	}
	return event.ToolContent{MediaType: mediaType, Data: raw}, nil
}
