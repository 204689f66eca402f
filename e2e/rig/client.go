package rig

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Message is a message of an app server: a response, a notification or a request.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	Seq  uint64 `json:"seq"`
	Part int    `json:"part"`

	Raw     []byte    `json:"-"` // as it arrived
	Arrived time.Time `json:"-"`
	Answers string    `json:"-"` // of a response: the method of the request
}

// Into decodes the parameters.
func (m Message) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(m.Params, v); err != nil {
		t.Fatalf("%s: %v\n%s", m.Method, err, m.Params)
	}
}

// Sent is a message of a client.
type Sent struct {
	After int // number of messages in All
	Raw   []byte
}

// Client is a client of an app server. Only the test's goroutine uses it.
type Client struct {
	t     testing.TB
	send  func(line []byte) error
	stop  func()
	kill  func()   // like stop, without notice
	pid   int      // of a process of its own
	check *Checked // nil: messages are not checked
	// All are the messages that have arrived, in order.
	All []Message
	// Sent are the messages that were sent, each with the number of messages that had arrived before it.
	Sent []Sent
	next int // ID of the next request

	mu      sync.Mutex
	arrived *sync.Cond
	in      []Message
	ended   error
}

// AppServer starts gantry app-server on stdio, and returns its only client, which has not sent anything. It is ended with the test.
// Its messages are checked, in both directions, against the schemas that gantry generates.
func (r *Rig) AppServer(args ...string) *Client {
	r.t.Helper()
	c := r.stdio(append([]string{"app-server"}, args...))
	c.checked()
	return c
}

// Agent starts gantry acp, and returns its editor, which has not sent anything. It is ended with the test.
func (r *Rig) Agent(args ...string) *Client {
	r.t.Helper()
	return r.stdio(append([]string{"acp"}, args...))
}

// MCP starts gantry mcp serve, and returns its client, which has not sent anything. It is ended with the test.
func (r *Rig) MCP(args ...string) *Client {
	r.t.Helper()
	return r.stdio(append([]string{"mcp", "serve"}, args...))
}

// stdio starts a command that serves the other end of its standard input and output.
func (r *Rig) stdio(args []string) *Client {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(r.Bin, r.Host), args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	stderr := &buffer{}
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	c := NewClient(r.t, out, func(line []byte) error {
		_, err := in.Write(append(line, '\n'))
		return err
	})
	killed := false
	c.kill = func() {
		killed = true
		if err := cmd.Process.Kill(); err != nil {
			r.t.Error(err)
		}
		c.stop()
	}
	c.pid = cmd.Process.Pid
	c.stop = sync.OnceFunc(func() {
		in.Close()
		if err := cmd.Wait(); err != nil && !killed {
			r.t.Errorf("%s: %v\n%s", args[0], err, stderr.String())
		}
		if r.t.Failed() {
			r.t.Logf("%s wrote to stderr:\n%s", args[0], stderr.String())
		}
	})
	r.t.Cleanup(c.stop)
	return c
}

// NewClient returns a client that reads lines, and sends them with send.
func NewClient(t testing.TB, from io.Reader, send func(line []byte) error) *Client {
	lines := bufio.NewReader(from)
	return newClient(t, func() ([]byte, error) { return lines.ReadBytes('\n') }, send)
}

// newClient returns a client that receives what read returns, also what it returns with an error, which is its last message.
func newClient(t testing.TB, read func() ([]byte, error), send func(line []byte) error) *Client {
	c := &Client{t: t, send: send}
	c.arrived = sync.NewCond(&c.mu)
	go func() { // ends with the connection
		for {
			line, err := read()
			c.mu.Lock()
			if len(line) > 1 {
				m := Message{Raw: line, Arrived: time.Now()}
				if jerr := json.Unmarshal(line, &m); jerr != nil && err == nil {
					err = jerr
				} else if jerr == nil {
					c.in = append(c.in, m)
				}
			}
			c.ended = err
			c.arrived.Broadcast()
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// checked has the client check what it sends, and what it receives, at the latest at the end of the test. Benchmarks measure the server
// alone.
func (c *Client) checked() {
	if _, bench := c.t.(*testing.B); bench {
		return
	}
	c.check = NewChecked()
	c.t.Cleanup(func() {
		c.mu.Lock()
		unread := c.in
		c.mu.Unlock()
		for _, m := range unread {
			c.conforms(m)
		}
	})
}

// conforms fails the test if a message does not match its schema. It returns the method of the request that the message answers.
func (c *Client) conforms(m Message) (answers string) {
	c.t.Helper()
	if c.check == nil {
		return ""
	}
	answers, err := c.check.Received(m.Raw)
	if err != nil {
		c.t.Errorf("a message does not match its schema: %v", err)
	}
	return answers
}

// Close ends the connection. On stdio, it waits for the end of the server.
func (c *Client) Close() { c.stop() }

// PID returns the process ID of an app server or agent on stdio.
func (c *Client) PID() int { return c.pid }

// Kill kills the server, and waits for its end.
func (c *Client) Kill() { c.kill() }

// Send sends a message, which must match its schema. Only a request need not: then the server must refuse it.
func (c *Client) Send(line string) {
	c.t.Helper()
	if c.check != nil {
		if err := c.check.Sent([]byte(line)); err != nil {
			c.t.Errorf("a message does not match its schema: %v", err)
		}
	}
	c.SendWrong(line)
}

// SendWrong sends a line that is no message, or none that a client should send.
func (c *Client) SendWrong(line string) {
	c.t.Helper()
	c.Sent = append(c.Sent, Sent{len(c.All), []byte(line)})
	if err := c.send([]byte(line)); err != nil {
		c.t.Fatal(err)
	}
}

// Request sends a request and returns its ID.
func (c *Client) Request(method string, params any) string {
	c.t.Helper()
	c.next++
	b, err := json.Marshal(map[string]any{"id": c.next, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	c.Send(string(b))
	return strconv.Itoa(c.next)
}

// patience is how long a client waits for a message. A test that waits longer has failed.
const patience = time.Minute

// Next waits for the next message.
func (c *Client) Next() Message {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := time.AfterFunc(patience, c.arrived.Broadcast)
	defer timer.Stop()
	for deadline := time.Now().Add(patience); len(c.in) == 0; c.arrived.Wait() {
		if c.ended != nil || time.Now().After(deadline) {
			c.t.Fatalf("no further message (%v) after\n%s", c.ended, c.log())
		}
	}
	m := c.in[0]
	c.in = c.in[1:]
	m.Answers = c.conforms(m)
	c.All = append(c.All, m)
	return m
}

func (c *Client) log() string {
	out := ""
	for _, m := range c.All {
		out += strings.TrimSpace(string(m.Raw)) + "\n"
	}
	return out
}

// Until waits for a message that matches, and returns it.
func (c *Client) Until(ok func(Message) bool) Message {
	c.t.Helper()
	for {
		if m := c.Next(); ok(m) {
			return m
		}
	}
}

// Notified waits for a notification or a request of the server.
func (c *Client) Notified(method string) Message {
	c.t.Helper()
	return c.Until(func(m Message) bool { return m.Method == method })
}

// Reply waits for the response to a request.
func (c *Client) Reply(id string) Message {
	c.t.Helper()
	return c.Until(func(m Message) bool { return m.Method == "" && string(m.ID) == id })
}

// Call sends a request, waits for its result, and decodes it into result, which may be nil.
func (c *Client) Call(method string, params, result any) {
	c.t.Helper()
	m := c.Reply(c.Request(method, params))
	if m.Error != nil {
		c.t.Fatalf("%s: %d %s %s", method, m.Error.Code, m.Error.Message, m.Error.Data)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			c.t.Fatalf("%s: %v\n%s", method, err, m.Result)
		}
	}
}

// Refused sends a request that must fail, and returns its error.
func (c *Client) Refused(method string, params any) (code int, message string) {
	c.t.Helper()
	m := c.Reply(c.Request(method, params))
	if m.Error == nil {
		c.t.Fatalf("%s succeeded: %s", method, m.Result)
	}
	return m.Error.Code, m.Error.Message
}

// Answer answers a request of the server.
func (c *Client) Answer(m Message, result any) {
	c.t.Helper()
	c.Send(c.answer(m, result))
}

// AnswerWrong answers a request of the server with a result that does not match its schema.
func (c *Client) AnswerWrong(m Message, result any) {
	c.t.Helper()
	c.SendWrong(c.answer(m, result))
}

func (c *Client) answer(m Message, result any) (line string) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"id": m.ID, "result": result})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// Ended waits for the end of the connection, and returns the messages that have arrived before it.
func (c *Client) Ended() []Message {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := time.AfterFunc(patience, c.arrived.Broadcast)
	defer timer.Stop()
	for deadline := time.Now().Add(patience); c.ended == nil; c.arrived.Wait() {
		if time.Now().After(deadline) {
			c.t.Fatalf("the connection has not ended after\n%s", c.log())
		}
	}
	return append(c.All, c.in...)
}
