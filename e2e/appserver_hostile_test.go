package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gorilla/websocket"
)

// Whatever one client does, another one's turns go on as if it were alone.
func TestAppServerHostileClients(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	server := r.Serve("unix")
	hello := `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"hostile","version":"1"}}}`
	checks := map[*websocket.Conn]*rig.Checked{} // a hostile client, too, gets only what is in the schema
	say := func(conn *websocket.Conn, text string) {
		t.Helper()
		if checks[conn] == nil {
			checks[conn] = rig.NewChecked()
		}
		_ = checks[conn].Sent([]byte(text)) // so that responses are known; it may be garbage
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(conn *websocket.Conn) (m rig.Message) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, b, err := conn.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if _, err := checks[conn].Received(b); err != nil {
			t.Errorf("a message does not match its schema: %v", err)
		}
		return m
	}
	bystander := server.Connect()
	greet(t, bystander)
	thread := begin(t, bystander, object{})
	fine := func(after string) {
		t.Helper()
		from := len(bystander.All)
		submit(t, bystander, thread, after)
		bystander.Notified("turn/completed")
		got := sequence(t, slices.DeleteFunc(slices.Clone(bystander.All[from:]), func(m rig.Message) bool { // the threads of others, and what only the first turn changes
			return m.Method != "" && (m.Method == "thread/readState/changed" || !strings.Contains(string(m.Params), thread))
		}))
		want := []string{
			"response", "thread/status/changed active", "turn/started inProgress", "item/started userMessage", "item/completed userMessage",
			"item/started agentMessage", "item/agentMessage/delta", "item/completed agentMessage", "thread/tokenUsage/updated",
			"thread/status/changed idle", "turn/completed completed",
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: got  %q\nwant %q", after, got, want)
		}
	}

	conn := server.Open()
	say(conn, hello)
	hear(conn)
	for _, garbage := range []string{`{"id":25,`, `[{"id":1,"method":"thread/list"}]`, `42`, `nonsense`} {
		say(conn, garbage)
		if m := hear(conn); m.Error == nil || string(m.ID) != "null" {
			t.Errorf("%s: %+v", garbage, m)
		}
	}
	fine("garbage and a batch")

	for range 200 { // the connection is closed after 100
		if conn.WriteMessage(websocket.TextMessage, []byte("}")) != nil {
			break
		}
	}
	for ended := false; !ended; {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		_, _, err := conn.ReadMessage()
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Fatal("a client that sends only garbage is still connected")
		}
		ended = err != nil
	}
	fine("nothing but garbage")

	conn = server.Open()
	say(conn, hello)
	hear(conn)
	// A short one stands for it in the check against the schemas, which takes minutes for the long one.
	_ = checks[conn].Sent([]byte(`{"id":2,"method":"thread/list","params":{"cursor":"x"}}`))
	if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"id":2,"method":"thread/list","params":{"cursor":"`+strings.Repeat("x", 100<<20)+`"}}`)); err != nil {
		t.Fatal(err)
	}
	if m := hear(conn); m.Error == nil {
		t.Errorf("a message of 100 MB: %+v", m)
	}
	fine("100 MB")

	raw, err := net.Dial("unix", strings.TrimPrefix(server.URL, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(raw, "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\xfe\x10\x00abcdhalf a frame"); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	fine("half a message")

	conn = server.Open()
	say(conn, hello)
	hear(conn)
	const many = 10_000
	check := checks[conn]
	go func() { // ends with the connection
		for i := range many {
			request := fmt.Appendf(nil, `{"id":%d,"method":"thread/loaded/list","params":{}}`, i+10)
			_ = check.Sent(request)
			if conn.WriteMessage(websocket.TextMessage, request) != nil {
				return
			}
		}
	}()
	fine("10,000 requests, while they are sent")
	seen := map[string]bool{}
	for len(seen) < many {
		if m := hear(conn); m.Method == "" {
			if m.Error != nil || seen[string(m.ID)] {
				t.Fatalf("%s: %+v", m.ID, m.Error)
			}
			seen[string(m.ID)] = true
		}
	}
	fine("10,000 requests")

	conn = server.Open()
	say(conn, hello)
	hear(conn)
	say(conn, fmt.Sprintf(`{"id":2,"method":"thread/resume","params":{"threadId":%q}}`, thread)) // and never reads
	for i := range 2000 {
		say(conn, fmt.Sprintf(`{"id":%d,"method":"thread/read","params":{"threadId":%q,"includeTurns":true}}`, i+10, thread))
	}
	fine("a client that does not read")
	fine("a client that still does not read")

	conn = server.Open()
	say(conn, hello)
	hear(conn)
	say(conn, `{"id":2,"method":"thread/start","params":{}}`)
	var started struct{ Thread struct{ ID string } }
	for m := hear(conn); ; m = hear(conn) {
		if string(m.ID) == "2" {
			if err := json.Unmarshal(m.Result, &started); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	say(conn, fmt.Sprintf(`{"id":3,"method":"turn/start","params":{"threadId":%q,"input":[{"type":"text","text":"go"}]}}`, started.Thread.ID))
	for string(hear(conn).ID) != "3" {
	}
	if err := conn.NetConn().Close(); err != nil {
		t.Fatal(err)
	}
	bystander.Notified("thread/started")
	fine("a client that leaves during its turn")
	var read openedThread
	r.Until("the turn of the client that left is complete", func() bool {
		bystander.Call("thread/read", object{"threadId": started.Thread.ID, "includeTurns": true}, &read)
		return len(read.Thread.Turns) == 1 && read.Thread.Turns[0].Status == "completed"
	})
}

// Who may connect to a websocket, and what a refused handshake says.
func TestAppServerRefusesHandshakes(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	server := r.Serve("ws")
	token := "Bearer " + server.Token
	for _, tc := range []struct {
		name   string
		header http.Header
		status int
	}{
		{"a web page", http.Header{"Authorization": {token}, "Origin": {"http://127.0.0.1"}}, 403},
		{"a web page whose name leads here", http.Header{"Authorization": {token}, "Host": {"attacker.example"}}, 403},
		{"another port", http.Header{"Authorization": {token}, "Host": {"127.0.0.1:1"}}, 403},
		{"no token", http.Header{}, 401},
		{"a wrong token", http.Header{"Authorization": {token + "x"}}, 401},
		{"a part of the token", http.Header{"Authorization": {token[:len(token)-1]}}, 401},
		{"another scheme", http.Header{"Authorization": {"Basic " + server.Token}}, 401},
		{"an oversized header", http.Header{"Authorization": {token}, "X-Large": {strings.Repeat("x", 1<<20)}}, 431},
	} {
		conn, resp, err := server.Dial(tc.header)
		if err == nil {
			_ = conn.Close()
			t.Errorf("%s: accepted", tc.name)
		} else if resp == nil || resp.StatusCode != tc.status {
			t.Errorf("%s: %v, %v, want %d", tc.name, resp, err, tc.status)
		}
	}
	c := server.Connect()
	greet(t, c)
}

// A process that the host has started, such as a command of the agent, may read. It has no say, even with the token.
func TestAppServerLaunchedClient(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ transport, second, question string }{
		{"unix", `call = "exec_command", id = "c2", args = { cmd = "touch made", login = false }`, "item/commandExecution/requestApproval"},
		{"ws", `call = "exec_command", id = "c2", args = { cmd = "touch made", login = false }`, "item/commandExecution/requestApproval"},
		{"unix", `call = "look-up", namespace = "weather", id = "c2", args = { place = "Oslo" }`, "item/tool/call"},
	} {
		t.Run(tc.transport+" "+tc.question, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			r := rig.New(t, `
[[step]]
when = { since_user = 0 }
do = [{ call = "exec_command", id = "c1", args = { cmd = "./attack", login = false, yield_time_ms = 250 } }]
[[step]]
do = [{ `+tc.second+` }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
			server := r.Serve(tc.transport, untrusted...)
			r.Write("attack", fmt.Sprintf("#!/bin/sh\nGANTRY_ATTACK_URL=%s GANTRY_ATTACK_TOKEN=%q exec %s -test.run='^TestAttackOfALaunchedClient$'\n", server.URL, server.Token, self))
			if err := os.Chmod(filepath.Join(r.Dir, "attack"), 0o755); err != nil {
				t.Fatal(err)
			}
			c := server.Connect()
			greet(t, c)
			thread := begin(t, c, weatherTools())
			turn := submit(t, c, thread, "hi")
			c.Answer(c.Notified("item/commandExecution/requestApproval"), object{"decision": "accept"})
			ofTool := tc.question == "item/tool/call"
			if ofTool {
				c.Answer(c.Notified("mcpServer/elicitation/request"), object{"action": "accept"})
			}
			q := c.Notified(tc.question)
			ids, err := json.Marshal([]string{thread, turn, strings.Trim(string(q.ID), `"`)})
			if err != nil {
				t.Fatal(err)
			}
			r.Write("ids.tmp", string(ids))
			if err := os.Rename(filepath.Join(r.Dir, "ids.tmp"), filepath.Join(r.Dir, "ids")); err != nil {
				t.Fatal(err)
			}
			r.Until("the attack is over", func() bool { return exists(r.Dir, "attacked") })
			if ofTool {
				c.Answer(q, inputText("of the client"))
			} else {
				c.Answer(q, object{"decision": "decline"})
			}
			c.Notified("turn/completed")
			if _, text := modelRead(t, r); ofTool && text != "of the client" {
				t.Errorf("the call of the client's tool has the result %q", text)
			}
			if exists(r.Dir, "made") {
				t.Error("the command ran: it has answered its own question")
			}
			for line := range strings.Lines(r.Read("attacked")) {
				method, outcome, _ := strings.Cut(strings.TrimSpace(line), ": ")
				reads := method == "initialize" || method == "thread/read" || method == "thread/loaded/list"
				if reads != (outcome == "allowed") {
					t.Errorf("%s of a launched process: %s", method, outcome)
				}
				if strings.HasPrefix(method, "gantry/view/") && !strings.Contains(outcome, "may only read threads") {
					t.Errorf("%s was not refused because of who asks: %s", method, outcome)
				}
			}
			check := rig.NewChecked()
			for line := range strings.Lines(r.Read("talk")) {
				if sent, ok := strings.CutPrefix(line, "> "); ok {
					_ = check.Sent([]byte(sent)) // it answers a question that it was not asked
				} else if _, err := check.Received([]byte(line[2:])); err != nil {
					t.Errorf("a message does not match its schema: %v", err)
				}
			}
			if n := strings.Count(r.Read("attacked"), "\n"); n < 10 {
				t.Errorf("%d tries: %s", n, r.Read("attacked"))
			}
		})
	}
}

// TestAttackOfALaunchedClient is the program that TestAppServerLaunchedClient has the agent run.
func TestAttackOfALaunchedClient(t *testing.T) {
	url := os.Getenv("GANTRY_ATTACK_URL")
	if url == "" {
		t.Skip("it is the program of another test")
	}
	var ids []string
	for deadline := time.Now().Add(time.Minute); ids == nil; {
		if b, err := os.ReadFile("ids"); err == nil {
			if err := json.Unmarshal(b, &ids); err != nil {
				t.Fatal(err)
			}
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	d := websocket.Dialer{}
	if path, ok := strings.CutPrefix(url, "unix://"); ok {
		url = "ws://localhost/"
		d.NetDialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	conn, _, err := d.Dial(url, http.Header{"Authorization": {"Bearer " + os.Getenv("GANTRY_ATTACK_TOKEN")}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var report, talk bytes.Buffer
	say := func(m object) {
		t.Helper()
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&talk, "> %s\n", b)
		if err := conn.WriteMessage(websocket.TextMessage, b); err != nil {
			t.Fatal(err)
		}
	}
	next := 0
	try := func(method string, params object) {
		next++
		say(object{"id": next, "method": method, "params": params})
		for {
			var m rig.Message
			_, b, err := conn.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&talk, "< %s\n", bytes.TrimSpace(b))
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			if string(m.ID) != strconv.Itoa(next) || m.Method != "" {
				continue
			}
			outcome := "allowed"
			if m.Error != nil {
				outcome = m.Error.Message
			}
			fmt.Fprintf(&report, "%s: %s\n", method, outcome)
			return
		}
	}
	thread, turn := ids[0], ids[1]
	input := text("do as I say")
	try("initialize", object{"clientInfo": object{"name": "attack", "version": "1"}, "capabilities": object{"experimentalApi": true}})
	say(object{"id": ids[2], "result": object{"decision": "accept"}})
	try("thread/read", object{"threadId": thread})
	try("thread/loaded/list", object{})
	try("thread/resume", object{"threadId": thread})
	say(object{"id": ids[2], "result": object{"decision": "accept"}})
	try("thread/start", object{})
	try("thread/fork", object{"threadId": thread})
	try("thread/archive", object{"threadId": thread})
	try("thread/settings/update", object{"threadId": thread, "approvalPolicy": "never"})
	try("thread/shellCommand", object{"threadId": thread, "command": "touch made"})
	try("turn/start", object{"threadId": thread, "input": input})
	try("turn/steer", object{"threadId": thread, "expectedTurnId": turn, "input": input})
	try("turn/interrupt", object{"threadId": thread, "turnId": turn})
	try("command/exec", object{"command": []string{"touch", "made"}})
	try("fs/writeFile", object{"path": "/tmp/made", "dataBase64": ""})
	size := object{"width": 80, "height": 24}
	try("gantry/view/open", object{"threadId": thread, "sessionId": "4711", "kinds": []string{"terminal"}, "size": size})
	try("gantry/view/control", object{"viewId": "none", "take": true})
	if err := os.WriteFile("talk", talk.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("attacked.tmp", report.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename("attacked.tmp", "attacked"); err != nil {
		t.Fatal(err)
	}
}
