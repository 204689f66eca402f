package mcpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ran calls a tool that runs an agent, and returns its result.
func ran(t *testing.T, c *mcp.ClientSession, tool string, args map[string]any) (thread, content string, refused []any) {
	t.Helper()
	r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	out, ok := r.StructuredContent.(map[string]any)
	if !ok || r.IsError {
		t.Fatalf("%v: %+v", args, r.Content[0])
	}
	thread, _ = out["threadId"].(string)
	content, _ = out["content"].(string)
	refused, _ = out["refused"].([]any)
	return thread, content, refused
}

// Calls of two clients on one thread run one after the other, each as a turn of its own, and both are answered.
func TestCallsOfOneThread(t *testing.T) {
	s := newServer(t, nil)
	asked := make(chan struct{})
	allow := make(chan struct{})
	one, _ := pipe(t, s)
	first := client(t, one, func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		close(asked)
		select {
		case <-allow:
		case <-ctx.Done():
		}
		return &mcp.ElicitResult{Action: "accept"}, nil
	})
	two, _ := pipe(t, s)
	second := client(t, two, nil)
	thread, _, _ := ran(t, first, toolAgent, map[string]any{"prompt": "hello"})
	answers := make(chan string, 2)
	go func() { // ends with the call
		_, content, _ := ran(t, first, toolReply, map[string]any{"threadId": thread, "prompt": "run it"})
		answers <- content
	}()
	<-asked
	go func() { // ends with the call
		_, content, _ := ran(t, second, toolReply, map[string]any{"threadId": thread, "prompt": "later"})
		answers <- content
	}()
	close(allow)
	got := []string{<-answers, <-answers}
	slices.Sort(got)
	if !slices.Equal(got, []string{"heard later", "heard run it"}) {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(s.cfg.Workspace.Dir, "made")); err != nil {
		t.Error(err)
	}
}

// A question that the client answers with an error, with nonsense, or not before it cancels, allows nothing.
func TestQuestionsThatAreNotAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		answer func() (*mcp.ElicitResult, error)
		want   string // in refused
	}{
		"an error":  {func() (*mcp.ElicitResult, error) { return nil, errors.New("no user here") }, "no user here"},
		"no action": {func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "perhaps"}, nil }, ""},
		"a decision that was not offered": {func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve_always_everything"}}, nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			p, _ := pipe(t, s)
			c := client(t, p, func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return tc.answer() })
			_, content, refused := ran(t, c, toolAgent, map[string]any{"prompt": "run it"})
			if content != "heard run it" || !strings.Contains(fmt.Sprint(refused), tc.want) {
				t.Errorf("%q, refused %q", content, refused)
			}
			if _, err := os.Stat(filepath.Join(s.cfg.Workspace.Dir, "made")); err == nil {
				t.Error("the command ran")
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		s := newServer(t, nil)
		p, _ := pipe(t, s)
		asked, withdrawn := make(chan struct{}), make(chan struct{})
		c := client(t, p, func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			close(withdrawn)
			return nil, ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // ends with the call
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: toolAgent, Arguments: map[string]any{"prompt": "run it"}})
			ended <- err
		}()
		<-asked
		cancel()
		if err := <-ended; err == nil {
			t.Error("the call was not cancelled")
		}
		<-withdrawn
	})
}

// The client leaves while it is asked: the call ends, and so does the question.
func TestClientLeaves(t *testing.T) {
	s := newServer(t, nil)
	p, conn := pipe(t, s)
	asked := make(chan struct{})
	c := client(t, p, func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ended := make(chan error, 1)
	go func() { // ends with the connection
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: toolAgent, Arguments: map[string]any{"prompt": "run it"}})
		ended <- err
	}()
	<-asked
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the call has a result")
	}
}

// A line that is too large or no message is answered with an error, and the connection goes on.
func TestLinesThatAreNoMessages(t *testing.T) {
	s := newServer(t, nil)
	_, conn := pipe(t, s)
	lines := bufio.NewScanner(conn)
	say := func(line string) string {
		t.Helper()
		go func() { _, _ = io.WriteString(conn, line+"\n") }() // ends when the server has read it
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		return lines.Text()
	}
	large := strings.Repeat("x", 5<<20)
	for line, want := range map[string]string{
		"{": notAMessage, "null": notAMessage, `"text"`: notAMessage, large: fmt.Sprintf(tooLarge, "null"),
		`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"` + large + `"}}`:       fmt.Sprintf(tooLarge, "7"),
		`{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"` + large + `"}}`:     fmt.Sprintf(tooLarge, `"a"`),
		`{"jsonrpc":"2.0","id":{"b":1},"method":"ping","params":{"x":"` + large + `"}}`: fmt.Sprintf(tooLarge, "null"),
	} {
		if got := say(line); got != want {
			t.Errorf("%.40q: %s, want %s", line, got, want)
		}
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	if got := say(hello); !strings.Contains(got, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("a later version: %s", got)
	}
}

// post sends a message to a server over HTTP.
func post(t *testing.T, url, session string, body io.Reader) (status int, id, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Mcp-Session-Id"), string(b)
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// overHTTP serves a server over HTTP until the end of the test.
func overHTTP(t *testing.T, s *Server) (url string) {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// There is a maximum of sessions. One that its client has ended makes room, and bodies are bounded.
func TestSessionsOverHTTP(t *testing.T) {
	s := newServer(t, func(c *Config) { c.MaxSessions = 2 })
	url := overHTTP(t, s)
	var ids []string
	for range 2 {
		status, id, text := post(t, url, "", strings.NewReader(hello))
		if status != http.StatusOK || id == "" {
			t.Fatalf("%d %s", status, text)
		}
		ids = append(ids, id)
	}
	if status, _, text := post(t, url, "", strings.NewReader(hello)); status != http.StatusServiceUnavailable || !strings.Contains(text, "2 clients have a session") {
		t.Errorf("a third client: %d %s", status, text)
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	if status, _, text := post(t, url, ids[0], strings.NewReader(ping)); status != http.StatusOK {
		t.Errorf("a client that has a session: %d %s", status, text)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", ids[0])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if status, _, _ := post(t, url, ids[0], strings.NewReader(ping)); status != http.StatusNotFound {
		t.Errorf("the session that was ended: %d", status)
	}
	if status, _, text := post(t, url, "", strings.NewReader(hello)); status != http.StatusOK {
		t.Errorf("a client after that: %d %s", status, text)
	}
	if status, _, text := post(t, url, ids[1], strings.NewReader(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"`+strings.Repeat("x", 5<<20)+`"}}`)); status < 400 || len(text) > 1<<10 {
		t.Errorf("a body of 5 MiB: %d %.100s", status, text)
	}
	if status, _, _ := post(t, url, "guessed", strings.NewReader(ping)); status != http.StatusNotFound {
		t.Errorf("a session that is guessed: %d", status)
	}
}

// The session of a client that sends nothing ends.
func TestIdleSessionsOverHTTP(t *testing.T) {
	s := newServer(t, func(c *Config) { c.SessionTimeout = time.Millisecond })
	url := overHTTP(t, s)
	status, id, text := post(t, url, "", strings.NewReader(hello))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for session := range s.mcp.Sessions() {
		_ = session.Wait() // until it has ended, for whatever reason
	}
	for status != http.StatusNotFound && t.Context().Err() == nil { // the handler forgets a session after its end
		status, _, _ = post(t, url, id, strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"ping"}`))
	}
}

// Without --allow-wider, agents work in the folder of the server or below it, and so do those that are replied to.
func TestFolderOfAgents(t *testing.T) {
	s := newServer(t, nil)
	own, other := s.cfg.Workspace.Dir, t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(own, "below"), 0o755), os.Symlink(other, filepath.Join(own, "link")), os.Symlink("below", filepath.Join(own, "inner"))); err != nil {
		t.Fatal(err)
	}
	resolved, err := filepath.EvalSymlinks(own)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := pipe(t, s)
	c := client(t, p, nil)
	fails := func(tool string, args map[string]any, want string) {
		t.Helper()
		args["prompt"] = "hello"
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil || !r.IsError || !strings.Contains(fmt.Sprint(r.Content[0].(*mcp.TextContent).Text), want) {
			t.Errorf("%v: %+v, %v; want %q", args, r, err, want)
		}
	}
	thread, _, _ := ran(t, c, toolAgent, map[string]any{"prompt": "hello", "cwd": other}) // a client that may ask for anything
	s.cfg.Widening = func(context.Context, string, []string) []string { return nil }
	for _, dir := range []string{other, "..", "link", "/", filepath.Join(own, "link"), own + "-not", "not", "link/not", "/etc/passwd/not"} {
		at := dir
		if !filepath.IsAbs(at) {
			at = filepath.Join(own, at)
		}
		// What exists elsewhere can't be told from what does not.
		fails(toolAgent, map[string]any{"cwd": dir}, fmt.Sprintf("there is no folder %s in %s, that of the server; next: use a folder in that one", filepath.Clean(at), resolved))
	}
	fails(toolReply, map[string]any{"threadId": thread}, "there is no folder "+other+" in ")
	for _, dir := range []string{"", own, ".", "below", "inner"} {
		thread, _, _ := ran(t, c, toolAgent, map[string]any{"prompt": "hello", "cwd": dir})
		ran(t, c, toolReply, map[string]any{"prompt": "hello", "threadId": thread})
	}
}
