package messages

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// hostedVersions are the default versions of hosted tools: the latest that all models with hosted tools support. Later ones only
// work with the latest models.
var hostedVersions = map[string]string{
	"web_search":     "web_search_20250305",
	"web_fetch":      "web_fetch_20250910",
	"code_execution": "code_execution_20250825",
}

// hostedBetas are the beta features that versions need.
var hostedBetas = map[string]string{
	"web_fetch_20250910":      "web-fetch-2025-09-10",
	"code_execution_20250522": "code-execution-2025-05-22",
	"code_execution_20250825": "code-execution-2025-08-25",
}

// hostedSettings are a hosted tool's fields other than type and name.
type hostedSettings map[string]json.RawMessage

// hostedTools returns the tools that the vendor runs. A kind is "web_search", or a version such as "web_search_20260209".
func (l *lowering) hostedTools() ([]any, error) {
	var out []any
	for _, kind := range l.HostedTools {
		name := hostedName(kind)
		version, ok := hostedVersions[name]
		if !ok {
			return nil, protocol.Invalid("the vendor runs web_search, web_fetch and code_execution", "hosted tool %q: the vendor runs no such tool", kind)
		}
		if kind != name {
			version = kind
		}
		settings := l.hostedSettings(name)
		var own string
		if json.Unmarshal(settings["type"], &own) == nil && own != "" {
			version = own
		}
		out = append(out, withFields(settings, map[string]any{"type": version, "name": name}))
		l.hosted = append(l.hosted, version)
	}
	return out, nil
}

func (l *lowering) hostedSettings(name string) hostedSettings {
	switch name {
	case "web_search":
		return l.opts.WebSearch
	case "web_fetch":
		return l.opts.WebFetch
	}
	return l.opts.CodeExecution
}

// hostedName removes the version from a kind.
func hostedName(kind string) string {
	name, date, ok := cutLast(kind, "_")
	if ok && len(date) == 8 && strings.Trim(date, "0123456789") == "" {
		return name
	}
	return kind
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// hostedMeta is the data of a hosted call or its result that must be sent back unchanged.
type hostedMeta struct {
	BlockType string                     `json:"blockType"`
	Result    json.RawMessage            `json:"result"`
	Fields    map[string]json.RawMessage `json:"fields"` // fields that this package does not know
}

func (l *lowering) hostedMeta(md llm.Metadata) (m hostedMeta, ok bool) {
	ok = protocol.MetaOf(md, l.Namespace, &m) && m.BlockType != ""
	return m, ok
}

// hostedCall returns the original block of a call.
func (l *lowering) hostedCall(c *llm.ToolCall, m hostedMeta) json.RawMessage {
	return withFields(m.Fields, map[string]any{"type": m.BlockType, "id": c.ID, "name": c.Name, "input": l.Arguments(c)})
}

// hostedResult returns the original block of a result.
func hostedResult(r *llm.ToolResult, m hostedMeta) json.RawMessage {
	own := map[string]any{"type": m.BlockType, "tool_use_id": r.ID}
	if len(m.Result) > 0 {
		own["content"] = m.Result
	}
	return withFields(m.Fields, own)
}

// withFields returns an object with known and unknown fields.
func withFields(fields map[string]json.RawMessage, own map[string]any) json.RawMessage {
	all := map[string]any{}
	for k, v := range fields {
		all[k] = v
	}
	maps.Copy(all, own)
	raw, err := protocol.Encode(all)
	if err != nil { // cannot fail: the values are strings and JSON
		panic("messages: encode fields: " + err.Error())
	}
	return raw
}

// hostedText returns the text of a hosted result for users and other vendors' models: the output of a program, the text of a page,
// or one line per search result.
func hostedText(content json.RawMessage) (text string, failed bool) {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s, false
	}
	var places []hostedContent
	if json.Unmarshal(content, &places) == nil {
		var lines []string
		for _, p := range places {
			if line := p.line(); line != "" {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "\n"), false
	}
	var c hostedContent
	if json.Unmarshal(content, &c) != nil {
		return "", false
	}
	if c.ErrorCode != "" {
		return c.ErrorCode, true
	}
	var page struct {
		Source struct {
			Type string `json:"type"`
			Data string `json:"data"`
		} `json:"source"`
	}
	_ = json.Unmarshal(c.Content, &page) // a list of files rather than a page
	if page.Source.Type == "text" {
		return strings.TrimPrefix(c.line()+"\n"+page.Source.Data, "\n"), false
	}
	return strings.TrimPrefix(strings.TrimSuffix(c.Stdout+c.Stderr+c.line(), "\n"), "\n"), false
}

type hostedContent struct {
	Title     string          `json:"title"`
	URL       string          `json:"url"`
	Text      string          `json:"text"`
	Stdout    string          `json:"stdout"`
	Stderr    string          `json:"stderr"`
	ErrorCode string          `json:"error_code"`
	Content   json.RawMessage `json:"content"`
}

func (c *hostedContent) line() string {
	switch {
	case c.Text != "":
		return c.Text
	case c.Title != "" && c.URL != "":
		return c.Title + " " + c.URL
	}
	return c.Title + c.URL
}
