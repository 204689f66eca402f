// Package form reads the schemas of forms, which plugins put to people, and checks what is filled in.
//
// It owns: which JSON Schemas are forms, the order of their fields, what a typed line means for a field, and whether an object is an
// answer. It must not know: who asks, and how a front end displays a form.
//
// Start with [Parse].
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/google/jsonschema-go/jsonschema"
)

// Limits of a form.
const (
	MaxFields  = 64
	MaxOptions = 256       // of a field
	maxBytes   = 256 << 10 // of the schema
)

// Kind is the kind of a field's value.
type Kind int

// Kinds of fields.
const (
	Text Kind = iota
	Number
	Integer
	Boolean
	One  // one of Options
	Many // any of Options
)

// String returns the kind in words.
func (k Kind) String() string {
	return [...]string{"text", "number", "whole number", "yes or no", "one of the list", "any of the list"}[k]
}

// Form is a flat JSON Schema of an object.
type Form struct {
	Fields []Field // in the order of the schema
	all    *contract.Validator
}

// Field is a property of a form. Title, Description and the titles of options are the author's words.
type Field struct {
	Name        string
	Title       string // empty: only the name
	Description string
	Kind        Kind
	Options     []Option
	Required    bool
	Default     json.RawMessage // nil: none
	Format      string          // of a text, such as "email"

	value *contract.Validator
}

// Option is a value to choose from.
type Option struct {
	Value json.RawMessage // a string, number or boolean
	Title string          // empty: only the value
}

// Label returns the option's title, or else its value.
func (o Option) Label() string {
	if o.Title != "" {
		return o.Title
	}
	return Plain(o.Value)
}

// Plain returns a JSON value as a person types it: a string without quotes.
func Plain(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// Parse reads the schema of a form.
func Parse(raw json.RawMessage) (*Form, error) {
	if len(raw) > maxBytes {
		return nil, fmt.Errorf("the form's schema has %d bytes; the maximum is %d", len(raw), maxBytes)
	}
	s, err := contract.ParseSchema(raw)
	if err != nil {
		return nil, fmt.Errorf("the form's schema: %w", err)
	}
	if s.Type != "object" {
		return nil, errors.New(`the form's schema: the type must be "object"`)
	}
	f := &Form{}
	if f.all, err = contract.Compile(s); err != nil {
		return nil, fmt.Errorf("the form's schema: %w", err)
	}
	if len(s.Properties) > MaxFields {
		return nil, fmt.Errorf("the form has %d fields; the maximum is %d", len(s.Properties), MaxFields)
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			return nil, fmt.Errorf("the form requires the field %.80q, which it does not have", name)
		}
	}
	var members struct {
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	order, properties := Members(members.Properties)
	for i, name := range order {
		if slices.Contains(order[:i], name) {
			return nil, fmt.Errorf("the form has the field %.80q twice", name)
		}
		field, err := fieldOf(s.Properties[name], properties[i])
		if err != nil {
			return nil, fmt.Errorf("the field %.80q of the form: %w", name, err)
		}
		field.Name, field.Required = name, slices.Contains(s.Required, name)
		f.Fields = append(f.Fields, field)
	}
	return f, nil
}

// Members returns the members of a JSON object in their order, which an unmarshalled object does not keep; none if it is no object.
func Members(object json.RawMessage) (names []string, values []json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(object))
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return nil, nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil
		}
		names, values = append(names, name.(string)), append(values, value)
	}
	return names, values
}

func fieldOf(s *jsonschema.Schema, raw json.RawMessage) (f Field, err error) {
	f = Field{Title: s.Title, Description: s.Description, Default: s.Default, Format: s.Format}
	alone, err := contract.ParseSchema(raw)
	if err != nil {
		return f, err
	}
	if f.value, err = contract.Compile(alone); err != nil {
		return f, err
	}
	if f.Options, err = optionsOf(s); err != nil {
		return f, err
	}
	switch {
	case s.Type == "array" && s.Items != nil:
		f.Kind = Many
		f.Options, err = optionsOf(s.Items)
		if err == nil && len(f.Options) == 0 {
			err = errors.New("an array must list what can be chosen, with enum, or with anyOf and const")
		}
	case len(f.Options) > 0 && s.Type != "boolean":
		f.Kind = One
	case s.Type == "string":
	case s.Type == "number":
		f.Kind = Number
	case s.Type == "integer":
		f.Kind = Integer
	case s.Type == "boolean":
		f.Kind = Boolean
	default:
		err = errors.New("it must be a string, a number, an integer, a boolean, a choice or an array of choices")
	}
	if err == nil && f.Default != nil {
		if e := f.check(f.Default); e != nil {
			err = fmt.Errorf("the default %.80s: %w", f.Default, e)
		}
	}
	return f, err
}

// optionsOf returns the values that a schema lists, with their titles; none: it lists no values.
func optionsOf(s *jsonschema.Schema) (out []Option, err error) {
	titles, _ := s.Extra["enumNames"].([]any)
	add := func(value any, title string) {
		switch value.(type) {
		case string, float64, bool:
		default:
			err = errors.New("choices must be strings, numbers or booleans")
			return
		}
		v, e := json.Marshal(value)
		if e != nil { // a scalar
			err = e
			return
		}
		out = append(out, Option{v, title})
	}
	for i, v := range s.Enum {
		title := ""
		if len(titles) == len(s.Enum) {
			title, _ = titles[i].(string)
		}
		add(v, title)
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.OneOf, s.AnyOf} {
		for _, a := range alternatives {
			if a.Const == nil {
				return nil, errors.New("each alternative of oneOf or anyOf must have a const")
			}
			add(*a.Const, a.Title)
		}
	}
	if len(out) > MaxOptions {
		return nil, fmt.Errorf("it has %d choices; the maximum is %d", len(out), MaxOptions)
	}
	return out, err
}

// Read converts a typed line. An empty line is the default, or leaves out a field that is not required; then the value is nil. Two
// quotation marks are an empty text.
func (f *Field) Read(line string) (json.RawMessage, error) {
	if line == "" {
		if f.Default == nil && f.Required {
			return nil, errors.New("a value is required")
		}
		return f.Default, nil
	}
	v, err := f.read(line)
	if err != nil {
		return nil, err
	}
	return v, f.check(v)
}

func (f *Field) read(line string) (json.RawMessage, error) {
	switch f.Kind {
	case Number, Integer:
		v := json.RawMessage(line)
		var n json.Number
		if json.Unmarshal(v, &n) != nil || line[0] == '"' || line == "null" {
			return nil, errors.New("not a number")
		}
		return v, nil
	case Boolean:
		switch strings.ToLower(line) {
		case "y", "yes", "true":
			return json.RawMessage("true"), nil
		case "n", "no", "false":
			return json.RawMessage("false"), nil
		}
		return nil, errors.New("not yes or no")
	case One:
		return f.option(line)
	case Many:
		return f.chosen(line)
	}
	if line == `""` {
		line = ""
	}
	return json.Marshal(line)
}

// option finds an option by its number in the list, from 1, its value or its title.
func (f *Field) option(text string) (json.RawMessage, error) {
	for i, o := range f.Options {
		if text == fmt.Sprint(i+1) {
			return o.Value, nil
		}
	}
	for _, o := range f.Options {
		if strings.EqualFold(text, Plain(o.Value)) || strings.EqualFold(text, o.Title) {
			return o.Value, nil
		}
	}
	return nil, fmt.Errorf("%.40q is not in the list", text)
}

// chosen converts options that are separated by commas; "none" is none of them.
func (f *Field) chosen(line string) (json.RawMessage, error) {
	list := []json.RawMessage{}
	if v, err := f.option(line); err == nil { // the text of an option may contain a comma
		return json.Marshal(append(list, v))
	}
	if !strings.EqualFold(line, "none") {
		for text := range strings.SplitSeq(line, ",") {
			v, err := f.option(strings.TrimSpace(text))
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(list, func(has json.RawMessage) bool { return bytes.Equal(has, v) }) {
				list = append(list, v)
			}
		}
	}
	return json.Marshal(list)
}

// check validates a value, its format included, which schemas alone do not require.
func (f *Field) check(v json.RawMessage) error {
	var value any
	if err := json.Unmarshal(v, &value); err != nil {
		return err
	}
	if err := f.value.Validate(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	text, ok := value.(string)
	if !ok || f.Kind != Text {
		return nil
	}
	var err error
	switch f.Format {
	case "email":
		var a *mail.Address
		if a, err = mail.ParseAddress(text); err != nil || a.Address != text {
			return errors.New("not an email address, such as name@example.com")
		}
	case "uri":
		var u *url.URL
		if u, err = url.Parse(text); err != nil || !u.IsAbs() {
			return errors.New("not a URI, such as https://example.com/")
		}
	case "date":
		if _, err = time.Parse(time.DateOnly, text); err != nil {
			return errors.New("not a date, such as 2026-02-28")
		}
	case "date-time":
		if _, err = time.Parse(time.RFC3339, text); err != nil {
			return errors.New("not a date and time, such as 2026-02-28T13:00:00Z")
		}
	}
	return nil
}

// Object returns the answer that values make; those that are nil are left out.
func (f *Form) Object(values []json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, v := range values {
		if v == nil {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Fields[i].Name)
		if err != nil { // a string
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), f.Check(b.Bytes())
}

// Check returns an error if an answer is not the object that the form asks for, with these fields only.
func (f *Form) Check(answer json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(answer, &object); err != nil || object == nil {
		return errors.New("the answer is not a JSON object")
	}
	for name, v := range object {
		i := slices.IndexFunc(f.Fields, func(x Field) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("the form has no field %.80q", name)
		}
		if err := f.Fields[i].check(v); err != nil {
			return fmt.Errorf("the field %.80q: %w", name, err)
		}
	}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return err
	}
	if err := f.all.Validate(value); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return nil
}
