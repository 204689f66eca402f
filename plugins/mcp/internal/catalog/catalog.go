// Package catalog turns what an MCP server lists into what gantry can offer.
//
// It owns: the names under which tools are called, the repair of schemas, the cleaning and bounding of a server's texts, the choice of
// tools, and the limits of a list. It must not know: how a server is reached, what a call does, how a tool is declared to the host.
//
// Start with [List] and [Name].
package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Limits of the texts of a tool, in bytes.
const (
	maxName         = 256
	maxTitle        = 256
	maxDescription  = 16 << 10
	MaxInstructions = 512 << 10 // of a server, in bytes
)

// Tool is a tool of a server. Its texts are cleaned and bounded, except for Name.
type Tool struct {
	Name        string // as the server calls it
	Title       string
	Description string
	Input       json.RawMessage // JSON Schema of an object, with sorted keys
	Unchecked   bool            // only the server can check arguments: Input says too much or can't be compiled
	Output      json.RawMessage // JSON Schema; nil: none
	Annotations Annotations
	Digest      string // SHA-256 in hex of everything that the server says of the tool
}

// Size returns about how many bytes a message has that declares the tool.
func (t *Tool) Size() int {
	const around = 512 // names made of the server's and the tool's, effects
	return around + 3*len(t.Name) + 2*len(t.Title) + len(t.Description) + len(t.Input) + len(t.Output)
}

// Annotations are what a server says of a tool's effects; nil: nothing.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint"`
	Destructive *bool `json:"destructiveHint"`
	Idempotent  *bool `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"`
}

// errHidden says that a tool is not for models.
var errHidden = errors.New("it is not for models")

// ParseTool reads one element of the result of tools/list. Members of a wrong type are ignored, except for the name and the input
// schema.
func ParseTool(raw json.RawMessage) (Tool, error) {
	var wire struct {
		Name        json.RawMessage `json:"name"`
		Title       json.RawMessage `json:"title"`
		Description json.RawMessage `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Output      json.RawMessage `json:"outputSchema"`
		Annotations json.RawMessage `json:"annotations"`
		Meta        json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Tool{}, errors.New("a tool is not a JSON object")
	}
	t := Tool{Name: text(wire.Name)}
	if t.Name == "" || len(t.Name) > maxName {
		return Tool{}, fmt.Errorf("the name of a tool has %d bytes; 1 to %d are allowed", len(t.Name), maxName)
	}
	var shown struct {
		UI struct {
			Visibility []string `json:"visibility"`
		} `json:"ui"`
	}
	if json.Unmarshal(wire.Meta, &shown) == nil && shown.UI.Visibility != nil && !slices.Contains(shown.UI.Visibility, "model") {
		return t, errHidden
	}
	var err error
	if t.Input, t.Unchecked, err = Schema(wire.Input); err != nil {
		return t, fmt.Errorf("the tool %q: input schema: %w", Line(t.Name, maxName), err)
	}
	t.Output = outputSchema(wire.Output)
	var title struct{ Title json.RawMessage }
	_ = json.Unmarshal(wire.Annotations, &title)
	t.Annotations = hints(wire.Annotations)
	t.Title = Line(text(wire.Title), maxTitle)
	if t.Title == "" {
		t.Title = Line(text(title.Title), maxTitle)
	}
	t.Description = Text(text(wire.Description), maxDescription)
	t.Digest, err = digest(raw)
	return t, err
}

// hints reads annotations one by one, so that a wrong type of one does not hide the others.
func hints(raw json.RawMessage) (a Annotations) {
	var each map[string]json.RawMessage
	if json.Unmarshal(raw, &each) != nil {
		return Annotations{}
	}
	for name, to := range map[string]**bool{
		"readOnlyHint": &a.ReadOnly, "destructiveHint": &a.Destructive, "idempotentHint": &a.Idempotent, "openWorldHint": &a.OpenWorld,
	} {
		var b *bool
		if json.Unmarshal(each[name], &b) == nil {
			*to = b
		}
	}
	return a
}

// text returns a JSON string, or "" for anything else.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// digest returns the SHA-256 of a JSON value, regardless of the order of its keys.
func digest(raw json.RawMessage) (string, error) {
	v, err := decode(raw)
	if err != nil {
		return "", err
	}
	b, err := encode(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// decode decodes a JSON value without losing digits of numbers.
func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("not JSON: there is something after the value")
	}
	return v, nil
}

// encode returns compact JSON with sorted keys.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
