package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// weatherTools are the parameters of a thread whose client knows the weather.
func weatherTools() object {
	place := object{"type": "object", "properties": object{"place": object{"type": "string"}}, "required": []string{"place"}}
	return object{"dynamicTools": []any{
		object{"type": "namespace", "name": "weather", "description": "What the sky does.", "tools": []any{
			object{"type": "function", "name": "look-up", "description": "Looks up the weather.", "inputSchema": place},
		}},
		object{"type": "function", "name": "beep", "description": "Beeps.", "inputSchema": object{"type": "object"}},
	}}
}

// lookupScript is a model that calls a tool of the client, and then answers.
const lookupScript = `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "look-up", namespace = "weather", id = "c1", args = { place = "Oslo" } }]
[[step]]
times = -1
do = [{ text = "done" }]
`

// modelRead returns the result of the last call as the model has read it.
func modelRead(t *testing.T, r *rig.Rig) (result llm.ToolResult, text string) {
	t.Helper()
	for _, m := range slices.Backward(r.Last().Request.Messages) {
		for _, p := range m.Parts {
			if res, ok := p.(*llm.ToolResult); ok {
				for _, c := range res.Content {
					if part, ok := c.(*llm.Text); ok {
						text += part.Text
					}
				}
				return *res, text
			}
		}
	}
	t.Fatal("the model has read no result")
	return
}

func inputText(text string) object {
	return object{"contentItems": []any{object{"type": "inputText", "text": text}}, "success": true}
}

// isCall reports whether a message asks for a call of a tool.
func isCall(m rig.Message) bool { return m.Method == "item/tool/call" }

// A tool of the client is offered with its schema. The client gets the call, and the model what it answers, with images.
func TestClientTool(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, weatherTools())
	turn := submit(t, c, thread, "hi")
	q := c.Notified("item/tool/call")
	var p struct {
		ThreadID, TurnID, CallID, Namespace, Tool string
		Arguments                                 struct{ Place string }
	}
	if q.Into(t, &p); p.ThreadID != thread || p.TurnID != turn || p.CallID != "c1" || p.Namespace != "weather" || p.Tool != "look-up" || p.Arguments.Place != "Oslo" {
		t.Errorf("the call is %s", q.Params)
	}
	offered := slices.Collect(func(yield func(string) bool) {
		for _, tool := range r.Last().Request.Tools {
			if tool.Namespace == "weather" || tool.Name == "beep" {
				if !strings.Contains(string(tool.InputSchema), `"object"`) || !yield(tool.Namespace+"/"+tool.Name+": "+tool.Description) {
					return
				}
			}
		}
	})
	if want := []string{"weather/look-up: Looks up the weather.", "/beep: Beeps."}; !slices.Equal(offered, want) {
		t.Errorf("offered %q, want %q", offered, want)
	}
	c.Answer(q, object{"success": true, "contentItems": []any{
		object{"type": "inputText", "text": "It is 4 degrees."},
		object{"type": "inputImage", "imageUrl": "data:image/png;base64," + pixel},
		object{"type": "inputImage", "imageUrl": "https://example.com/a.png"},
	}})
	c.Notified("turn/completed")
	result, text := modelRead(t, r)
	images := 0
	for _, part := range result.Content {
		if m, ok := part.(*llm.Media); ok && m.MediaType == "image/png" {
			images++
		}
	}
	if result.IsError || images != 1 || text != "It is 4 degrees.[image left out: it is not a data URL with base64]" {
		t.Errorf("the model read %q and %d images: %+v", text, images, result)
	}
	for _, m := range c.All {
		if m.Method == "serverRequest/resolved" {
			t.Errorf("the client that has answered is told so: %s", m.Raw)
		}
	}
	var log struct {
		Data []struct {
			Kind string
			Body struct{ Verdict, Reason string }
		}
	}
	c.Call("gantry/thread/events", object{"threadId": thread, "limit": 1000}, &log)
	decided := 0
	for _, e := range log.Data {
		if e.Kind == "call.decided" {
			if decided++; e.Body.Verdict != "run" || e.Body.Reason != "a client of the thread runs it" {
				t.Errorf("decided %+v", e.Body)
			}
		}
	}
	if decided != 1 {
		t.Errorf("%d decisions in %d events", decided, len(log.Data))
	}
}

// Arguments that don't match the schema are refused before the client is asked.
func TestClientToolChecksArguments(t *testing.T) {
	t.Parallel()
	r := rig.New(t, strings.Replace(lookupScript, `place = "Oslo"`, "place = 7", 1))
	c := r.AppServer()
	greet(t, c)
	submit(t, c, begin(t, c, weatherTools()), "hi")
	c.Notified("turn/completed")
	if _, text := modelRead(t, r); !strings.HasPrefix(text, "failed to parse function arguments: `place`: ") {
		t.Errorf("the model read %q", text)
	}
	if slices.ContainsFunc(c.All, isCall) {
		t.Error("the client got the call")
	}
}

// Calls pass the policy and the hooks like those of all tools: what a client's tool does is not known, so untrusted asks.
func TestClientToolIsApproved(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ action, result string }{{"accept", "sunny"}, {"decline", "rejected by user"}} {
		t.Run(tc.action, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, lookupScript)
			c := r.AppServer(untrusted...)
			greet(t, c)
			submit(t, c, begin(t, c, weatherTools()), "hi")
			c.Answer(c.Notified("mcpServer/elicitation/request"), object{"action": tc.action})
			if tc.action == "accept" {
				c.Answer(c.Notified("item/tool/call"), inputText("sunny"))
			}
			c.Notified("turn/completed")
			if _, text := modelRead(t, r); text != tc.result {
				t.Errorf("the model read %q", text)
			}
			if tc.action == "decline" && slices.ContainsFunc(c.All, isCall) {
				t.Error("the client got the call all the same")
			}
		})
	}
}

// Hooks see calls of clients' tools like all others, but not as questions: a hook that notifies the user is not run.
func TestClientToolPassesHooks(t *testing.T) {
	t.Parallel()
	for _, denies := range []bool{false, true} {
		t.Run(fmt.Sprintf("denies %v", denies), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, lookupScript)
			before := "cat > before"
			if denies {
				before += "; echo it stays inside >&2; exit 2"
			}
			hookFile(t, r, map[string][]hookGroup{
				"PreToolUse": on("", before), "PostToolUse": on("", "cat > after"), "PermissionRequest": on("", "touch asked"), "Notification": on("", "touch asked"),
			})
			c := r.AppServer()
			greet(t, c)
			submit(t, c, begin(t, c, weatherTools()), "hi")
			if !denies {
				c.Answer(c.Notified("item/tool/call"), inputText("sunny"))
			}
			c.Notified("turn/completed")
			if seen := r.Read("before"); !strings.Contains(seen, "look-up") || !strings.Contains(seen, "Oslo") {
				t.Errorf("the hook before the call reads %s", seen)
			}
			_, text := modelRead(t, r)
			if denies != strings.Contains(text, "it stays inside") || denies == exists(r.Dir, "after") || exists(r.Dir, "asked") {
				t.Errorf("the model read %q; after: %v, asked: %v", text, exists(r.Dir, "after"), exists(r.Dir, "asked"))
			}
			if denies && slices.ContainsFunc(c.All, isCall) {
				t.Error("the client got the call all the same")
			}
			if !denies && !strings.Contains(r.Read("after"), "sunny") {
				t.Errorf("the hook after the call reads %s", r.Read("after"))
			}
		})
	}
}

// watching connects another client to a thread.
func watching(t *testing.T, s *rig.Server, thread string) *rig.Client {
	t.Helper()
	c := s.Connect()
	greet(t, c)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	return c
}

// unknown answers a request as a client that does not know its method.
func unknown(c *rig.Client, m rig.Message) {
	c.Send(fmt.Sprintf(`{"id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID))
}

// All clients of a thread get the call. The first answer counts, and the others are told.
func TestClientToolOfSeveralClients(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	s := r.Serve("unix")
	a := s.Connect()
	greet(t, a)
	thread := begin(t, a, weatherTools())
	b := watching(t, s, thread)
	submit(t, a, thread, "hi")
	first, second := a.Notified("item/tool/call"), b.Notified("item/tool/call")
	if string(first.ID) != string(second.ID) {
		t.Errorf("IDs %s and %s", first.ID, second.ID)
	}
	b.Answer(second, inputText("rain"))
	var p struct{ RequestID string }
	if a.Notified("serverRequest/resolved").Into(t, &p); fmt.Sprintf("%q", p.RequestID) != string(first.ID) {
		t.Errorf("resolved %q, asked %s", p.RequestID, first.ID)
	}
	a.Answer(first, inputText("late"))
	a.Notified("turn/completed")
	b.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "rain" {
		t.Errorf("the model read %q", text)
	}
	for _, m := range b.All {
		if m.Method == "serverRequest/resolved" {
			t.Errorf("the client that has answered is told so: %s", m.Raw)
		}
	}
}

// A client that does not know such requests is no obstacle for another one that does, and does not keep calls waiting when that one is gone,
// even if it said so only after the other one had answered.
func TestClientToolUnknownToAClient(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	s := r.Serve("unix")
	a := s.Connect()
	greet(t, a)
	thread := begin(t, a, weatherTools())
	b, late := watching(t, s, thread), watching(t, s, thread)
	submit(t, a, thread, "one")
	unknown(b, b.Notified("item/tool/call"))
	b.Call("thread/loaded/list", object{}, nil) // the server has read the answer
	a.Answer(a.Notified("item/tool/call"), inputText("fog"))
	a.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "fog" {
		t.Errorf("the model read %q", text)
	}
	q := late.Notified("item/tool/call")
	late.Notified("serverRequest/resolved")
	unknown(late, q)
	late.Call("thread/loaded/list", object{}, nil)

	// Now a is the only one left who runs the tool.
	seen := len(b.All)
	submit(t, b, thread, "two")
	unknown(a, a.Notified("item/tool/call"))
	b.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "dynamic tool request failed: no client that has the tool is connected" {
		t.Errorf("the model read %q", text)
	}
	// And then no one, so that calls fail at once.
	submit(t, b, thread, "three")
	b.Notified("turn/completed")
	if slices.ContainsFunc(b.All[seen:], isCall) {
		t.Error("a client that does not know such requests has got another one")
	}
}

// A client that was disconnected gets the call again when it returns. One that does not return has left the tool to no one.
func TestClientToolReconnects(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	s := r.Serve("ws")
	a := s.Connect()
	greet(t, a)
	thread := begin(t, a, weatherTools())
	submit(t, a, thread, "hi")
	q := a.Notified("item/tool/call")
	a.Close()
	b := watching(t, s, thread)
	again := b.Until(isCall)
	if string(again.ID) != string(q.ID) {
		t.Errorf("the call has the ID %s, then %s", q.ID, again.ID)
	}
	b.Answer(again, inputText("snow"))
	b.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "snow" {
		t.Errorf("the model read %q", text)
	}
}

// The tools belong to the thread: it has them after a restart of the server, and so has a fork.
func TestClientToolAfterARestart(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, weatherTools())
	submit(t, c, thread, "one")
	c.Notified("item/tool/call")
	c.Kill()

	c = r.AppServer()
	greet(t, c)
	c.Call("thread/resume", object{"threadId": thread}, nil)
	submit(t, c, thread, "two")
	c.Answer(c.Notified("item/tool/call"), inputText("hail"))
	c.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "hail" {
		t.Errorf("the model read %q", text)
	}
	var fork struct{ Thread struct{ ID string } }
	c.Call("thread/fork", object{"threadId": thread}, &fork)
	submit(t, c, fork.Thread.ID, "three")
	q := c.Notified("item/tool/call")
	var p struct{ ThreadID string }
	if q.Into(t, &p); p.ThreadID != fork.Thread.ID {
		t.Errorf("the call is of thread %s", p.ThreadID)
	}
	c.Answer(q, inputText("wind"))
	c.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "wind" {
		t.Errorf("the model read %q", text)
	}
}

// A client of another process than the thread's runs its tools as well.
func TestClientToolOfAnotherProcess(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	s := r.Serve("unix")
	owner := s.Connect()
	greet(t, owner)
	thread := begin(t, owner, weatherTools())
	submit(t, owner, thread, "one")
	owner.Answer(owner.Notified("item/tool/call"), inputText("calm"))
	owner.Notified("turn/completed")

	other := r.AppServer()
	greet(t, other)
	other.Call("thread/resume", object{"threadId": thread}, nil)
	submit(t, other, thread, "two")
	q := owner.Notified("item/tool/call")
	other.Answer(other.Notified("item/tool/call"), inputText("storm"))
	owner.Notified("serverRequest/resolved")
	other.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "storm" {
		t.Errorf("the model read %q", text)
	}
	unknown(owner, q) // from now on only the other process has a client for it
	owner.Call("thread/loaded/list", object{}, nil)
	submit(t, other, thread, "three")
	other.Answer(other.Notified("item/tool/call"), inputText("thaw"))
	other.Notified("turn/completed")
	if _, text := modelRead(t, r); text != "thaw" {
		t.Errorf("the model read %q", text)
	}
}

// A thread without a client that runs its tools does not wait for one: here a command continues it.
func TestClientToolWithoutAClient(t *testing.T) {
	t.Parallel()
	r := rig.New(t, lookupScript)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, weatherTools())
	submit(t, c, thread, "one")
	c.Answer(c.Notified("item/tool/call"), inputText("calm"))
	c.Notified("turn/completed")
	c.Close()
	r.OK("exec", "resume", thread, "two")
	if _, text := modelRead(t, r); text != "dynamic tool request failed: no client that has the tool is connected" {
		t.Errorf("the model read %q", text)
	}
}

// Declarations that can't be used are refused with their place.
func TestClientToolDeclarations(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	function := func(name string, more object) object {
		f := object{"type": "function", "name": name, "description": "d", "inputSchema": object{"type": "object"}}
		for k, v := range more {
			f[k] = v
		}
		return f
	}
	space := func(name string, tools ...any) object {
		return object{"type": "namespace", "name": name, "description": "d", "tools": append([]any{}, tools...)}
	}
	for _, tc := range []struct {
		tools []any
		want  string
	}{
		{[]any{function("a", nil), object{"type": "custom", "name": "b"}}, "dynamicTools[1].type: unknown variant `custom`, expected one of `function`, `namespace`"},
		{[]any{space("n", object{"type": "namespace", "name": "m", "description": "d", "tools": []any{}})}, "dynamicTools[0].tools[0].type: unknown variant `namespace`, expected one of `function`"},
		{[]any{object{"name": "a", "description": "d", "inputSchema": object{}}}, "dynamicTools[0]: missing field `type`"},
		{[]any{function("a b", nil)}, "dynamicTools[0].name: invalid name `a b`: use 1 to 128 letters, digits, underscores and dashes"},
		{[]any{function("", nil)}, "dynamicTools[0].name: invalid name ``"},
		{[]any{function(strings.Repeat("a", 129), nil)}, "dynamicTools[0].name: invalid name"},
		{[]any{space(strings.Repeat("a", 65), function("f", nil))}, "dynamicTools[0].name: invalid name"},
		{[]any{function("a", nil), function("a", nil)}, "dynamicTools[1].name: `a` is declared twice"},
		{[]any{space("n", function("a", nil), function("a", nil))}, "dynamicTools[0].tools[1].name: `a` is declared twice"},
		{[]any{space("n", function("a", nil)), space("n", function("b", nil))}, "dynamicTools[1].name: the namespace `n` is declared twice"},
		{[]any{space("n")}, "dynamicTools[0].tools: a namespace needs at least one tool"},
		{[]any{space("functions", function("a", nil))}, "dynamicTools[0].name: the namespace `functions` is reserved"},
		{[]any{space("web", function("a", nil))}, "dynamicTools[0].name: the namespace `web` is reserved"},
		{[]any{function("a", object{"deferLoading": true})}, "dynamicTools[0].deferLoading: only tools in a namespace can be deferred"},
		{[]any{function("a", object{"description": strings.Repeat("é", 1025)})}, "dynamicTools[0].description: it has 1025 characters; the maximum is 1024"},
		{[]any{function("a", object{"inputSchema": object{"type": "string"}})}, `dynamicTools[0].inputSchema: the type must be "object"`},
		{[]any{function("a", object{"inputSchema": 7})}, "dynamicTools[0].inputSchema: not a JSON Schema"},
		{[]any{function("a", object{"inputSchema": object{"type": "object", "$ref": "#/missing"}})}, "dynamicTools[0].inputSchema: "},
		{[]any{function("request_permissions", nil)}, `dynamicTools: tool "request_permissions": gantry has a tool of this name`},
	} {
		code, message := c.Refused("thread/start", object{"dynamicTools": tc.tools})
		if code != -32602 || !strings.HasPrefix(message, "Invalid request: "+tc.want) {
			t.Errorf("%d %s\nwant %s", code, message, tc.want)
		}
	}
	begin(t, c, object{"dynamicTools": []any{
		function("a", object{"description": strings.Repeat("é", 1024)}), function(strings.Repeat("A-", 64), nil),
		space("n", function("a", object{"deferLoading": true})), space("m", function("a", nil)),
	}})
	begin(t, c, object{"dynamicTools": []any{}})
}

// A tool of the client with the name of a plugin's is hidden, and the thread says so.
func TestClientToolHiddenByAPlugin(t *testing.T) {
	t.Parallel()
	r := rig.New(t, answers)
	c := r.AppServer()
	greet(t, c)
	thread := begin(t, c, object{"dynamicTools": []any{
		object{"type": "function", "name": "exec_command", "description": "mine", "inputSchema": object{"type": "object"}},
	}})
	submit(t, c, thread, "hi")
	c.Notified("turn/completed")
	said := slices.ContainsFunc(c.All, func(m rig.Message) bool {
		return m.Method == "warning" && strings.Contains(string(m.Params), `tool \"exec_command\" of the client is hidden by the one of plugin`)
	})
	n := 0
	for _, tool := range r.Last().Request.Tools {
		if tool.Name == "exec_command" {
			n++
			if tool.Description == "mine" {
				t.Error("the model is offered the client's")
			}
		}
	}
	if !said || n != 1 {
		raw, _ := json.Marshal(c.All) // plain data
		t.Errorf("%d tools of the name; said: %v\n%s", n, said, raw)
	}
}
