package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hostileMCPMode is the variable that makes the test binary the MCP server of a row of hostileMCP, which its first argument names.
const hostileMCPMode = "GANTRY_E2E_MCP_HOSTILE"

// hostileServer is an MCP server that writes what it likes. Its functions replace what a well-behaved server does.
type hostileServer struct {
	in    *bufio.Reader
	out   *bufio.Writer
	lists int        // requests for the tools
	mu    sync.Mutex // held by print

	start      func()
	initialize func(id string)
	list       func(id, cursor string)
	call       func(id, params string)
	end        func() // after the end of standard input
}

// print writes a line.
func (h *hostileServer) print(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintf(h.out, format+"\n", args...)
	_ = h.out.Flush()
}

func (h *hostileServer) result(id, result string) {
	h.print(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (h *hostileServer) text(id, format string, args ...any) {
	h.result(id, mcpText(fmt.Sprintf(format, args...)))
}

func mcpText(s string) string {
	b, _ := json.Marshal(s)
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, b)
}

// flood writes a text until enough bytes have been written; 0: without end.
func (h *hostileServer) flood(text string, size int) {
	for n := 0; size == 0 || n < size; n += len(text) {
		if _, err := h.out.WriteString(text); err != nil {
			return
		}
	}
	_ = h.out.Flush()
}

// Parts of a well-behaved server.
const (
	mcpTool  = `{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	mcpHello = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"hostile","version":"1"}}`
)

// mcpMessage is a message to a server.
type mcpMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func (h *hostileServer) next() (m mcpMessage, ok bool) {
	for {
		line, err := h.in.ReadBytes('\n')
		if err != nil {
			return m, false
		}
		if json.Unmarshal(line, &m) == nil {
			return m, true
		}
	}
}

// ask sends a request, and returns the answer.
func (h *hostileServer) ask(id, method, params string) string {
	h.print(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)
	for {
		m, ok := h.next()
		switch {
		case !ok:
			os.Exit(0)
		case m.Method != "" || string(m.ID) != fmt.Sprintf("%q", id):
		case m.Error != nil:
			return fmt.Sprintf("error %d: %s", m.Error.Code, m.Error.Message)
		default:
			return string(m.Result)
		}
	}
}

// serve answers until standard input ends.
func (h *hostileServer) serve() {
	if h.start != nil {
		h.start()
	}
	for {
		m, ok := h.next()
		if !ok {
			break
		}
		id, cursor := string(m.ID), struct{ Cursor string }{}
		_ = json.Unmarshal(m.Params, &cursor)
		switch {
		case len(id) == 0:
		case m.Method == "initialize" && h.initialize != nil:
			h.initialize(id)
		case m.Method == "initialize":
			h.result(id, mcpHello)
		case m.Method == "tools/list":
			if h.lists++; h.list != nil {
				h.list(id, cursor.Cursor)
			} else {
				h.result(id, `{"tools":[`+mcpTool+`]}`)
			}
		case m.Method == "tools/call" && h.call != nil:
			h.call(id, string(m.Params))
		case m.Method == "tools/call":
			h.text(id, "fine")
		case m.Method == "ping":
			h.result(id, "{}")
		case m.Method != "":
			h.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, id)
		}
	}
	if h.end != nil {
		h.end()
	}
}

func forever() { select {} }

// die ends the server like a crash.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	forever()
}

// deaf ignores every request to end.
func deaf() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE) }

// noteEnd writes into the folder of the second argument, if there is one, how the server is asked to end, and does not.
func noteEnd() {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	for what := "input "; ; what = "TERM " {
		if len(os.Args) > 2 {
			if f, err := os.OpenFile(os.Args[2]+"/end", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
				_, _ = f.WriteString(what)
				_ = f.Close()
			}
		}
		<-terms
	}
}

// leave starts a process that keeps what the server has open, and outlives it if it can.
func leave() {
	c := exec.Command("/bin/sleep", "1000")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "sleep:", err)
	}
}

// serveHostileMCP is the server of a row.
func serveHostileMCP() int {
	h := &hostileServer{in: bufio.NewReader(os.Stdin), out: bufio.NewWriterSize(os.Stdout, 1<<20)}
	for _, row := range hostileMCP() {
		if row.name == os.Args[1] {
			row.server(h)
			h.serve()
			return 0
		}
	}
	fmt.Fprintf(os.Stderr, "there is no row %q\n", os.Args[1])
	return 2
}

// hostileHTTP is a server over HTTP that answers as it likes: answer gets the method of each call, and returns whether it has answered.
func hostileHTTP(answer func(w http.ResponseWriter, r *http.Request, m mcpMessage) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m mcpMessage
		body, _ := io.ReadAll(r.Body)
		_ = json.NewDecoder(bytes.NewReader(body)).Decode(&m)
		if answer(w, r, m) {
			return
		}
		result := mcpText("fine")
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case len(m.ID) == 0:
			w.WriteHeader(http.StatusAccepted)
			return
		case m.Method == "initialize":
			result = mcpHello
		case m.Method == "tools/list":
			result = `{"tools":[` + mcpTool + `]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}
}

// drip writes a text slowly, until the client is gone.
func drip(w http.ResponseWriter, r *http.Request, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// nested is JSON that is nested this deep.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
