package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxManifestBytes is the size of the largest manifest that [ParseManifest] reads, four times the size of a message.
const MaxManifestBytes = 64 << 20

// UnknownEffect is the label of the [OtherEffect] that replaces effects of a kind that this version doesn't know.
const UnknownEffect = "unknown effect"

// Canonical returns the manifest as canonical JSON: keys are sorted, there is no white space, zero fields are omitted, and
// an empty list is the same as an absent one. The same manifest results in the same bytes on both sides of the wire.
// Invalid JSON inside the manifest is included as a string; [Manifest.Validate] reports it.
func (m *Manifest) Canonical() []byte {
	b, err := json.Marshal(m.printable())
	if err != nil {
		panic("contract: a printable manifest can't be marshalled: " + err.Error())
	}
	c, err := canonical(b)
	if err != nil {
		return b // nested too deeply for encoding/json, but the order of the fields is fixed as well
	}
	return c
}

// Digest returns a digest of the manifest's content: "m1:" followed by the SHA-256 of [Manifest.Canonical] in base64.
func (m *Manifest) Digest() string {
	sum := sha256.Sum256(m.Canonical())
	return "m1:" + base64.StdEncoding.EncodeToString(sum[:])
}

// ParseManifest parses the output of [Manifest.Canonical]. Unknown fields and unknown enumeration values are ignored;
// unknown effects become [UnknownEffect]. Use [Manifest.Validate] to check the manifest.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > MaxManifestBytes {
		return nil, fmt.Errorf("parse manifest: %d bytes are more than the %d allowed", len(b), MaxManifestBytes)
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		return nil, errors.New("parse manifest: not a JSON object")
	}
	m := &Manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("parse manifest: %w", err)
	}
	return m, nil
}

// canonical returns one JSON value in canonical form. Numbers keep their digits.
func canonical(b []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// printable returns a copy in which all JSON from the plugin is valid.
func (m *Manifest) printable() *Manifest {
	c := *m
	c.Config = c.Config.printable()
	c.Commands = slices.Clone(c.Commands)
	for i := range c.Commands {
		c.Commands[i].InputSchema = printableJSON(c.Commands[i].InputSchema)
	}
	c.Tools = slices.Clone(c.Tools)
	for i := range c.Tools {
		c.Tools[i].InputSchema = printableJSON(c.Tools[i].InputSchema)
		c.Tools[i].OutputSchema = printableJSON(c.Tools[i].OutputSchema)
	}
	return &c
}

func (b ConfigBlock) printable() ConfigBlock {
	b.Attributes = slices.Clone(b.Attributes)
	for i := range b.Attributes {
		b.Attributes[i].Type = printableJSON(b.Attributes[i].Type)
		b.Attributes[i].Default = printableJSON(b.Attributes[i].Default)
	}
	b.Blocks = slices.Clone(b.Blocks)
	for i := range b.Blocks {
		b.Blocks[i].Block = b.Blocks[i].Block.printable()
	}
	return b
}

func printableJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if c, err := canonical(raw); err == nil {
		return c
	}
	s, _ := json.Marshal(strings.ToValidUTF8(string(raw), "\uFFFD")) // a string always marshals
	return s
}

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. An unknown name is [KindUnknown].
func (k *Kind) UnmarshalText(b []byte) error {
	*k = Kind(max(0, slices.Index(kindNames[:], string(b))))
	return nil
}

var exposureNames = [...]string{"unknown", "direct", "deferred", "hidden"}

// String returns the name used in JSON.
func (e Exposure) String() string { return nameOf(exposureNames[:], int(e)) }

// MarshalText implements [encoding.TextMarshaler].
func (e Exposure) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. An unknown name is [ExposureUnknown].
func (e *Exposure) UnmarshalText(b []byte) error {
	*e = Exposure(max(0, slices.Index(exposureNames[:], string(b))))
	return nil
}

// descriptorFields has the JSON form of a [Descriptor] without Effects.
type descriptorFields Descriptor

type descriptorJSON struct {
	*descriptorFields
	Effects []effectJSON `json:"effects,omitempty"`
}

// effectJSON is an effect of any kind.
type effectJSON struct {
	Type      string   `json:"type"`
	Argv      []string `json:"argv,omitempty"`
	Cwd       string   `json:"cwd,omitempty"`
	ShellText string   `json:"shellText,omitempty"`
	TTY       bool     `json:"tty,omitempty"`
	Paths     []string `json:"paths,omitempty"`
	Host      string   `json:"host,omitempty"`
	Port      uint32   `json:"port,omitempty"`
	Method    string   `json:"method,omitempty"`
	Origin    string   `json:"origin,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Page      string   `json:"page,omitempty"`
	SessionID string   `json:"sessionId,omitempty"`
	Text      string   `json:"text,omitempty"`
	Language  string   `json:"language,omitempty"`
	Label     string   `json:"label,omitempty"`

	Service     string `json:"service,omitempty"`
	Action      string `json:"action,omitempty"`
	ReadOnly    *bool  `json:"readOnly,omitempty"`
	Destructive *bool  `json:"destructive,omitempty"`
	Idempotent  *bool  `json:"idempotent,omitempty"`
	OpenWorld   *bool  `json:"openWorld,omitempty"`
	Approval    string `json:"approval,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (d Descriptor) MarshalJSON() ([]byte, error) {
	out := descriptorJSON{descriptorFields: (*descriptorFields)(&d)}
	for _, e := range d.Effects {
		out.Effects = append(out.Effects, effectToJSON(e))
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (d *Descriptor) UnmarshalJSON(b []byte) error {
	in := descriptorJSON{descriptorFields: &descriptorFields{}}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*d = Descriptor(*in.descriptorFields)
	for _, e := range in.Effects {
		d.Effects = append(d.Effects, effectFromJSON(e))
	}
	return nil
}

func effectToJSON(e Effect) effectJSON {
	switch e := e.(type) {
	case ExecEffect:
		return effectJSON{Type: "exec", Argv: e.Argv, Cwd: e.Cwd, ShellText: e.ShellText, TTY: e.TTY}
	case WriteEffect:
		return effectJSON{Type: "write", Paths: e.Paths}
	case ReadEffect:
		return effectJSON{Type: "read", Paths: e.Paths}
	case NetworkEffect:
		return effectJSON{Type: "network", Host: e.Host, Port: e.Port, Method: e.Method}
	case BrowserEffect:
		return effectJSON{Type: "browser", Origin: e.Origin, Kind: e.Kind, Page: e.Page}
	case SessionInputEffect:
		return effectJSON{Type: "session-input", SessionID: e.SessionID, Text: e.Text, Language: e.Language}
	case ServiceEffect:
		return effectJSON{
			Type: "service", Service: e.Service, Action: e.Action, ReadOnly: e.ReadOnly, Destructive: e.Destructive, Idempotent: e.Idempotent,
			OpenWorld: e.OpenWorld, Approval: e.Approval,
		}
	case OtherEffect:
		return effectJSON{Type: "other", Label: e.Label}
	}
	return effectJSON{Type: "other", Label: UnknownEffect}
}

func effectFromJSON(e effectJSON) Effect {
	switch e.Type {
	case "exec":
		return ExecEffect{Argv: e.Argv, Cwd: e.Cwd, ShellText: e.ShellText, TTY: e.TTY}
	case "write":
		return WriteEffect{Paths: e.Paths}
	case "read":
		return ReadEffect{Paths: e.Paths}
	case "network":
		return NetworkEffect{Host: e.Host, Port: e.Port, Method: e.Method}
	case "browser":
		return BrowserEffect{Origin: e.Origin, Kind: e.Kind, Page: e.Page}
	case "session-input":
		return SessionInputEffect{SessionID: e.SessionID, Text: e.Text, Language: e.Language}
	case "service":
		return ServiceEffect{
			Service: e.Service, Action: e.Action, ReadOnly: e.ReadOnly, Destructive: e.Destructive, Idempotent: e.Idempotent,
			OpenWorld: e.OpenWorld, Approval: e.Approval,
		}
	case "other":
		return OtherEffect{Label: e.Label}
	}
	return OtherEffect{Label: UnknownEffect}
}
