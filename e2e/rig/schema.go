package rig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// wireSchemas are the schemas of the app server's messages, for clients with or without the capability experimentalApi.
type wireSchemas struct {
	files   map[string][]byte // by name of the type
	params  map[string]string // name of the parameters' type, by method of either side
	results map[string]string // name of the result's type, by method of either side

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

// Generated once in a process: each generation starts gantry.
var (
	stableSchemas       = sync.OnceValues(func() (*wireSchemas, error) { return generateSchemas(false) })
	experimentalSchemas = sync.OnceValues(func() (*wireSchemas, error) { return generateSchemas(true) })
)

func schemasOf(experimental bool) (*wireSchemas, error) {
	if experimental {
		return experimentalSchemas()
	}
	return stableSchemas()
}

// irregular are the names of results that do not follow from the name of the parameters.
func irregular(method string) string {
	return map[string]string{
		"config/value/write": "ConfigWriteResponse", "config/batchWrite": "ConfigWriteResponse", "config/mcpServer/reload": "McpServerRefreshResponse",
		"configRequirements/read": "ConfigRequirementsReadResponse", "account/logout": "LogoutAccountResponse",
	}[method]
}

// generateSchemas has gantry write its schemas.
func generateSchemas(experimental bool) (*wireSchemas, error) {
	bin, err := findBin()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "g")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	args := []string{"app-server", "generate-json-schema", "--out", filepath.Join(dir, "schemas")}
	if experimental {
		args = append(args, "--experimental")
	}
	cmd := exec.Command(filepath.Join(bin, "gantry"), args...)
	cmd.Env = append(clean(os.Environ()), "GANTRY_HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("generate-json-schema: %w\n%s", err, out)
	}
	s := &wireSchemas{
		files: map[string][]byte{}, params: map[string]string{}, results: map[string]string{}, resolved: map[string]*jsonschema.Resolved{},
	}
	err = filepath.WalkDir(filepath.Join(dir, "schemas"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			s.files[strings.TrimSuffix(e.Name(), ".json")], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"ServerNotification", "ClientNotification", "ServerRequest", "ClientRequest"} {
		var all struct { // the part that lists the methods: reading the whole file as a schema takes seconds under the race detector
			OneOf []struct {
				Properties struct {
					Method struct{ Enum []string }
					Params struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		if err := json.Unmarshal(s.files[kind], &all); err != nil {
			return nil, err
		}
		for _, m := range all.OneOf {
			method := m.Properties.Method.Enum[0]
			params := strings.TrimPrefix(m.Properties.Params.Ref, "#/definitions/")
			s.params[method] = params
			if strings.HasSuffix(kind, "Notification") {
				continue
			}
			s.results[method] = cmp.Or(irregular(method), strings.TrimSuffix(params, "Params")+"Response")
			if s.files[s.results[method]] == nil {
				return nil, fmt.Errorf("the result of %s has no schema %s", method, s.results[method])
			}
		}
	}
	return s, nil
}

// validate checks a value of a type.
func (s *wireSchemas) validate(typ string, raw json.RawMessage) error {
	r, err := s.of(typ)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

// of returns the schema of a type.
func (s *wireSchemas) of(typ string) (*jsonschema.Resolved, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.resolved[typ]; r != nil {
		return r, nil
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(s.files[typ], &schema); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", typ, err)
	}
	r, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", typ, err)
	}
	s.resolved[typ] = r
	return r, nil
}

// check checks a message: its members, and its parameters, result or error. method is that of the request that it answers.
func (s *wireSchemas) check(raw []byte, method string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	only := func(names ...string) error {
		for name := range members {
			if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") {
				return fmt.Errorf("a message must not have a member %s", name)
			}
		}
		return nil
	}
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	typ, known := s.params[m.Method]
	switch {
	case m.Method != "" && !known:
		return errors.New("it is not in the schema")
	case m.Method != "" && m.ID == nil:
		return errors.Join(only("method", "params", "emittedAtMs", "seq", "part"), s.validateParams(typ, m.Params))
	case m.Method != "":
		return errors.Join(only("id", "method", "params"), s.validate("RequestId", m.ID), s.validateParams(typ, m.Params))
	case m.Error != nil:
		err := only("id", "error")
		if m.Error.Code == 0 || m.Error.Message == "" {
			err = errors.Join(err, errors.New("an error has a code and a message"))
		}
		if len(m.Error.Data) > 0 {
			err = errors.Join(err, s.validate("ErrorData", m.Error.Data))
		}
		return err
	case method == "":
		return errors.New("it answers no request")
	}
	typ, known = s.results[method]
	if !known {
		return fmt.Errorf("%s is not in the schema", method)
	}
	return errors.Join(only("id", "result"), s.validate("RequestId", m.ID), s.validate(typ, m.Result))
}

// validateParams checks parameters. Those of a method that has none are ignored.
func (s *wireSchemas) validateParams(typ string, raw json.RawMessage) error {
	if typ == "" {
		return nil
	}
	return s.validate(typ, raw)
}

// Checked checks the messages of one client, in both directions, against the schemas that gantry generates. A [Client] has one; tests that
// open a connection of their own make another. It is safe for concurrent use.
type Checked struct {
	mu           sync.Mutex
	asked        map[string][]request // requests that were sent, by ID: IDs may be used twice
	questions    map[string]string    // methods of the server's requests, by ID: they may be answered twice
	experimental bool
}

// NewChecked returns the check of a client that has not sent anything.
func NewChecked() *Checked {
	return &Checked{asked: map[string][]request{}, questions: map[string]string{}}
}

// request is a request of a client. The server must refuse it if it does not match its schema.
type request struct {
	method string
	wrong  error
}

// Sent checks a message of the client. Requests may be wrong, if the server refuses them.
func (c *Checked) Sent(raw []byte) error {
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%w\n%s", err, raw)
	}
	var p struct {
		Capabilities struct{ ExperimentalAPI bool }
	}
	c.mu.Lock()
	if m.Method == "initialize" && json.Unmarshal(m.Params, &p) == nil && p.Capabilities.ExperimentalAPI {
		c.experimental = true
	}
	experimental, question := c.experimental, c.questions[string(m.ID)]
	c.mu.Unlock()
	s, err := schemasOf(experimental)
	if err != nil {
		return err
	}
	if err = s.check(withoutIgnored(raw), question); err != nil {
		err = fmt.Errorf("%s%s: %w\n%s", m.Method, question, err, raw)
	}
	if m.Method == "" || m.ID == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[string(m.ID)] = append(c.asked[string(m.ID)], request{m.Method, err})
	return nil
}

// withoutIgnored removes members that clients may add to a message, and the server ignores.
func withoutIgnored(raw []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	for name := range members {
		if !slices.Contains([]string{"id", "method", "params", "result", "error"}, name) {
			delete(members, name)
		}
	}
	out, err := json.Marshal(members)
	if err != nil {
		return raw
	}
	return out
}

// Received returns the method of the request that a message of the server answers, and an error if the message does not match its
// schema, or is the result of a request that does not.
func (c *Checked) Received(raw []byte) (answers string, err error) {
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", err
	}
	var wrong error
	c.mu.Lock()
	experimental := c.experimental
	if asked := c.asked[string(m.ID)]; m.Method == "" && len(asked) > 0 {
		answers, wrong = asked[0].method, asked[0].wrong
		c.asked[string(m.ID)] = asked[1:]
	}
	if m.Method != "" && m.ID != nil {
		c.questions[string(m.ID)] = m.Method
	}
	c.mu.Unlock()
	s, err := schemasOf(experimental)
	if err != nil {
		return answers, err
	}
	err = s.check(raw, answers)
	if m.Error == nil && wrong != nil {
		err = errors.Join(err, fmt.Errorf("the server has accepted a request that does not match its schema: %w", wrong))
	}
	if err != nil {
		return answers, fmt.Errorf("%s%s: %w\n%s", m.Method, answers, err, bytes.TrimSpace(raw))
	}
	return answers, nil
}

// Value checks a value of a type, by the type's name in the schemas, as clients with the capability experimentalApi have them.
func Value(typ string, raw []byte) error {
	s, err := schemasOf(true)
	if err != nil {
		return err
	}
	return s.validate(typ, raw)
}
