// Package protocoltest helps tests of servers and clients of the app server's protocol.
//
// It owns the check of messages against their schemas and the tables in the guide. It does not know how messages are sent.
//
// Start with [NewChecker].
package protocoltest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/google/jsonschema-go/jsonschema"
)

// Checker checks the messages of a connection against the schemas. It is safe for concurrent use.
type Checker struct {
	dir string // of the schemas

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
	asked    map[string]string // schema of the result, by the id of an open request, with the side that sent it
}

// NewChecker returns a checker for one connection.
func NewChecker(t testing.TB) *Checker {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "schemas")
	if err := protocol.WriteJSONSchema(dir, true); err != nil {
		t.Fatal(err)
	}
	return &Checker{dir: dir, resolved: map[string]*jsonschema.Resolved{}, asked: map[string]string{}}
}

// message is any message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// FromClient checks a message that the client has sent. Requests with wrong parameters are errors, too: do not pass those that a test
// means to be wrong.
func (c *Checker) FromClient(raw []byte) error { return c.check(raw, true) }

// FromServer checks a message that the server has sent.
func (c *Checker) FromServer(raw []byte) error { return c.check(raw, false) }

func (c *Checker) check(raw []byte, client bool) error {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method == "initialized" && client:
		return nil
	case m.Method != "" && m.ID != nil:
		params, result := requestTypes(m.Method, client)
		if params == nil {
			return fmt.Errorf("unknown method %s", m.Method)
		}
		c.asked[side(client)+string(m.ID)] = schemaOf(result)
		if len(m.Params) == 0 && params == reflect.TypeFor[protocol.NoParams]() {
			return nil
		}
		return c.validate(m.Method, schemaOf(params), m.Params)
	case m.Method != "":
		for _, n := range protocol.Notifications() {
			if n.Name == m.Method {
				return c.validate(m.Method, schemaOf(n.Params), m.Params)
			}
		}
		return fmt.Errorf("unknown notification %s", m.Method)
	}
	id := side(!client) + string(m.ID)
	result, ok := c.asked[id]
	delete(c.asked, id)
	switch {
	case m.Error != nil && len(m.Error.Data) > 0:
		return c.validate("error", "ErrorData", m.Error.Data)
	case m.Error != nil:
		return nil
	case !ok:
		return fmt.Errorf("a response to nothing: %s", raw)
	}
	return c.validate("response", result, m.Result)
}

// side is a prefix of ids: each side has ids of its own.
func side(client bool) string {
	if client {
		return "client "
	}
	return "server "
}

func requestTypes(method string, client bool) (params, result reflect.Type) {
	if client {
		for _, m := range protocol.Methods() {
			if m.Name == method {
				return m.Params, m.Result
			}
		}
		return nil, nil
	}
	for _, r := range protocol.ServerRequests() {
		if r.Name == method {
			return r.Params, r.Result
		}
	}
	return nil, nil
}

func schemaOf(t reflect.Type) string { return protocol.SchemaName(t) }

func (c *Checker) validate(what, schema string, raw []byte) error {
	s, err := c.schema(schema)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return fmt.Errorf("%s: no value for %s", what, schema)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%s: does not match %s: %w\n%s", what, schema, err, raw)
	}
	return nil
}

func (c *Checker) schema(name string) (*jsonschema.Resolved, error) {
	if s := c.resolved[name]; s != nil {
		return s, nil
	}
	for _, folder := range []string{"", "v1", "v2"} {
		b, err := os.ReadFile(filepath.Join(c.dir, folder, name+".json"))
		if err != nil {
			continue
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, err
		}
		c.resolved[name], err = s.Resolve(nil)
		return c.resolved[name], err
	}
	return nil, fmt.Errorf("no schema %s", name)
}

// Comments in the guide between which the tables are.
const (
	GuideBegin = "<!-- methods: written by a test with -update -->\n"
	GuideEnd   = "<!-- end of methods -->"
)

// Guide checks that a file has [protocol.Table] between [GuideBegin] and [GuideEnd], or writes it there.
func Guide(t testing.TB, path string, has func(method string) bool, update bool) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), GuideBegin)
	_, after, closed := strings.Cut(rest, GuideEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables: a line %q and a line %q", path, strings.TrimSpace(GuideBegin), GuideEnd)
	}
	want := before + GuideBegin + "\n" + protocol.Table(has) + "\n" + GuideEnd + after
	if want == string(b) {
		return
	}
	if !update {
		t.Fatalf("the tables in %s are out of date: run this test with -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
