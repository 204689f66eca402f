package e2e_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
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

	"github.com/gantry-agent/gantry/e2e/rig"
)

// hostileRow is what a server does that is broken or evil, and what comes of it.
type hostileRow struct {
	name   string
	group  string                 // rows of a group are the servers of one run; "": those that fail to start, or what they do is cheap
	server func(h *hostileServer) // a program
	web    http.HandlerFunc       // an address
	block  string                 // further settings
	fails  string                 // why it does not start; "": it does
	warns  string                 // what is said of its tools
	reads  []string               // what the model reads of a call; nil: "fine"
	never  string                 // what it does not read
}

const (
	quickStart = "startup_timeout = \"1s\""
	quickCall  = "call_timeout = \"1s\""
	notReady   = "it was not ready within 1s; next: raise startup_timeout in its block"
	noAnswer   = "the server has not answered within 1s; next: raise call_timeout in its block"
)

// hostileMCP is the table. The programs run in their sandboxes, which write nothing and reach nobody.
func hostileMCP() []hostileRow {
	onCall := func(f func(h *hostileServer, id string)) func(h *hostileServer) {
		return func(h *hostileServer) { h.call = func(id, _ string) { f(h, id) } }
	}
	result := func(format string, args ...any) func(h *hostileServer) {
		return onCall(func(h *hostileServer, id string) { h.result(id, fmt.Sprintf(format, args...)) })
	}
	onStart := func(f func(h *hostileServer)) func(h *hostileServer) {
		return func(h *hostileServer) { h.start = func() { f(h) } }
	}
	onInitialize := func(f func(h *hostileServer, id string)) func(h *hostileServer) {
		return func(h *hostileServer) { h.initialize = func(id string) { f(h, id) } }
	}
	onList := func(f func(h *hostileServer, id, cursor string)) func(h *hostileServer) {
		return func(h *hostileServer) { h.list = func(id, cursor string) { f(h, id, cursor) } }
	}
	tools := func(list string) func(h *hostileServer) {
		return onList(func(h *hostileServer, id, _ string) { h.result(id, `{"tools":[`+list+`]}`) })
	}
	web := hostileHTTP
	return []hostileRow{
		// Starts.
		{name: "hangs_at_start", server: onStart(func(*hostileServer) { deaf(); forever() }), block: quickStart, fails: notReady},
		{name: "exits_at_start", server: onStart(func(*hostileServer) { fmt.Fprintln(os.Stderr, "set \x1b[31mTOKEN\u202e"); os.Exit(3) }), fails: "exited with code 3; its standard error ends with: set [31mTOKEN"},
		{name: "is_killed_in_initialize", server: onInitialize(func(*hostileServer, string) { die() }), fails: "was ended by the signal 9 (killed)"},
		{name: "is_killed_in_list", server: onList(func(*hostileServer, string, string) { die() }), fails: "was ended by the signal 9 (killed)"},
		{name: "ends_within_a_frame", server: onInitialize(func(h *hostileServer, id string) { h.flood(`{"jsonrpc":"2.0","id":`+id+`,"resu`, 1); os.Exit(0) }), fails: "exited with code 0"},
		{name: "hangs_within_a_frame", server: onInitialize(func(h *hostileServer, id string) { h.flood(`{"jsonrpc":"2.0","id":`+id+`,"resu`, 1); forever() }), block: quickStart, fails: notReady},
		{name: "closes_its_output", server: onStart(func(h *hostileServer) { deaf(); os.Stdout.Close(); forever() }), block: quickStart, fails: "does not start"},
		{name: "leaves_a_child_at_start", server: onStart(func(*hostileServer) { leave(); os.Exit(4) }), block: "startup_timeout = \"10s\"", fails: "exited with code 4"},
		{name: "floods_junk_at_start", server: onStart(func(h *hostileServer) { h.flood("no message\n", 0) }), block: quickStart, fails: notReady},
		{name: "floods_errors_at_start", server: onStart(func(h *hostileServer) { h.out.Reset(os.Stderr); h.flood("an error\n", 0) }), block: quickStart, fails: notReady},
		{name: "floods_notifications_at_start", server: onStart(func(h *hostileServer) {
			h.flood(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`+"\n", 0)
		}), block: quickStart, fails: notReady},
		{name: "floods_requests", server: onStart(func(h *hostileServer) {
			for i := 0; ; i++ {
				h.print(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
			}
		}), block: "startup_timeout = \"10s\"", fails: "the server has sent more than 64 requests without waiting for the answers"},
		{name: "answers_with_a_wrong_id", server: onInitialize(func(h *hostileServer, _ string) { h.result("999", mcpHello) }), block: quickStart, fails: notReady},
		{name: "answers_with_broken_json", server: onInitialize(func(h *hostileServer, id string) { h.result(id, `{"protocolVersion":`) }), fails: "the server's answer is not valid JSON, or no answer of the protocol"},
		{name: "answers_with_nothing", server: onInitialize(func(h *hostileServer, id string) { h.result(id, "null") }), fails: "does not start"},
		{name: "answers_with_a_list", server: onInitialize(func(h *hostileServer, id string) { h.result(id, "[]") }), fails: "the server's answer has another form than the protocol demands"},
		{name: "has_an_unknown_version", server: onInitialize(func(h *hostileServer, id string) {
			h.result(id, strings.Replace(mcpHello, "2025-06-18", "1999-01-01", 1))
		}), fails: "1999-01-01"},
		{name: "refuses", server: onInitialize(func(h *hostileServer, id string) {
			h.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"go away\u001b[2J\u202e"}}`, id)
		}), fails: "go away[2J"},
		{name: "repeats_a_cursor", server: onList(func(h *hostileServer, id, _ string) { h.result(id, `{"tools":[],"nextCursor":"x"}`) }), fails: `the server's list of tools does not end: it has sent the cursor "x" twice`},
		{name: "has_endless_cursors", server: onList(func(h *hostileServer, id, cursor string) {
			h.result(id, fmt.Sprintf(`{"tools":[],"nextCursor":"%sx"}`, cursor))
		}), fails: "the server's list of tools has more than 100 pages"},
		{name: "has_a_large_cursor", server: onList(func(h *hostileServer, id, _ string) {
			h.result(id, `{"tools":[],"nextCursor":"`+strings.Repeat("x", 1<<20)+`"}`)
		}), fails: "the server's cursor has 1048576 bytes"},
		{name: "has_a_wrong_cursor", server: onList(func(h *hostileServer, id, _ string) { h.result(id, `{"tools":[],"nextCursor":{}}`) }), fails: "the server's cursor is not a string"},
		{name: "lists_an_object", server: onList(func(h *hostileServer, id, _ string) { h.result(id, `{"tools":{}}`) }), fails: `has no list named "tools"`},
		{name: "has_ten_thousand_tools", server: onList(func(h *hostileServer, id, _ string) {
			var b strings.Builder
			for i := range 10_000 {
				fmt.Fprintf(&b, `,{"name":"t%d"}`, i)
			}
			h.result(id, `{"tools":[`+b.String()[1:]+`]}`)
		}), fails: "the server has more than 2048 tools; next: choose some with allow or deny"},

		// Tools.
		{name: "has_two_thousand_tools", server: onList(func(h *hostileServer, id, _ string) {
			list := mcpTool
			for i := range 1999 {
				list += fmt.Sprintf(`,{"name":"tool_%d","description":"Does the thing number %d.","inputSchema":{"type":"object","properties":{"a%d":{"type":"string"}}}}`, i, i, i)
			}
			h.result(id, `{"tools":[`+list+`]}`)
		})},
		{name: "has_odd_names", server: tools(mcpTool + `,` + mcpTool + `,{"name":""},{"name":"a-b"},{"name":"a.b"},{"name":5},{},"x",{"name":"` + strings.Repeat("n", 300) + `"},{"name":"\u0000\u202e"}`),
			warns: `the tool "t" is listed twice; the name of a tool has 0 bytes`},
		{name: "has_odd_schemas", server: tools(mcpTool + `,{"name":"deep","inputSchema":{"type":"object","properties":{"a":` + strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat("}", 300) + `}}},` +
			`{"name":"loop","inputSchema":{"type":"object","$defs":{"a":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}},` +
			`{"name":"missing","inputSchema":{"type":"object","properties":{"x":{"$ref":"#/$defs/no"}}}},{"name":"remote","inputSchema":{"type":"object","properties":{"x":{"$ref":"http://127.0.0.1/x"}}}},` +
			`{"name":"text","inputSchema":"x"},{"name":"list","inputSchema":{"type":"array"}},{"name":"pattern","inputSchema":{"type":"object","properties":{"x":{"type":"string","pattern":"(?=a)("}}}},` +
			`{"name":"hints","annotations":{"readOnlyHint":"yes","title":5}},{"name":"long","description":"` + strings.Repeat(`\u202e`, 1<<18) + `"}`),
			warns: `the tool "deep": input schema: the schema is nested more than 100 levels deep; the tool "text": input schema: the schema is not a JSON object`},
		{name: "has_no_tools", server: onInitialize(func(h *hostileServer, id string) {
			h.result(id, `{"protocolVersion":"2025-06-18","capabilities":null,"serverInfo":null,"instructions":5e0}`)
		}), fails: "the server's answer has another form than the protocol demands"},
		{name: "answers_twice", server: func(h *hostileServer) {
			h.initialize = func(id string) { h.result(id, mcpHello); h.result(id, mcpHello) }
			h.call = func(id, _ string) { h.text(id, "fine"); h.text(id, "not fine") }
		}},
		{name: "changes_its_name", server: func(h *hostileServer) {
			n := 0
			h.initialize = func(id string) { h.result(id, strings.Replace(mcpHello, "hostile", "gantry", 1)) }
			h.call = func(id, _ string) {
				n++
				h.result("1", strings.Replace(mcpHello, `"tools"`, `"x"`, 1))
				h.text(id, "fine")
			}
		}},

		// Calls.
		{name: "hangs_in_a_call", server: onCall(func(*hostileServer, string) { forever() }), block: quickCall, reads: []string{noAnswer}},
		{name: "is_killed_in_a_call", server: onCall(func(*hostileServer, string) { die() }), reads: []string{"has ended during the call; its process was ended by the signal 9 (killed); the next call starts it again"}},
		{name: "exits_in_a_call", server: onCall(func(*hostileServer, string) {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20)+"\nout of \u202eluck")
			os.Exit(9)
		}), reads: []string{"exited with code 9; its standard error ends with:", "out of luck"}},
		{name: "closes_its_output_in_a_call", server: onCall(func(*hostileServer, string) { deaf(); os.Stdout.Close(); forever() }), reads: []string{"has ended during the call"}},
		{name: "leaves_a_child_in_a_call", server: onCall(func(*hostileServer, string) { leave(); os.Exit(4) }), block: "call_timeout = \"10s\"", reads: []string{"has ended during the call; its process exited with code 4"}},
		{name: "ignores_its_end", server: func(h *hostileServer) { deaf(); h.end = forever }},
		{name: "notes_its_end", server: func(h *hostileServer) { h.end = noteEnd }},
		{name: "does_not_read", server: onCall(func(h *hostileServer, id string) { deaf(); h.flood(`{"jsonrpc":"2.0","id":"`+id, 1); forever() }), block: quickCall, reads: []string{noAnswer}},
		{name: "answers_half", server: onCall(func(h *hostileServer, id string) { h.flood(`{"jsonrpc":"2.0","id":`+id+`,"result":{`, 1) }), block: quickCall, reads: []string{noAnswer}},
		{name: "answers_other_calls", server: onCall(func(h *hostileServer, id string) {
			for _, other := range []string{"999", `"` + id + `"`, "-1", "null", "1.5", "{}", "1e999"} {
				h.text(other, "not fine")
			}
			h.text(id, "fine")
		})},
		{name: "answers_in_a_batch", server: onCall(func(h *hostileServer, id string) {
			h.print(`[1,2,{"x":"y"}]`)
			h.print(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":%s,"result":%s}]`, id, mcpText("fine"))
		})},
		{name: "answers_with_crlf", server: onCall(func(h *hostileServer, id string) { h.print("\r\n \t\x00\r\n\xff\xfe\r\n"); h.text(id, "fine") })},
		{name: "answers_with_a_tools_list", server: result(`{"tools":[]}`), reads: []string{"Output:"}},
		{name: "answers_with_an_empty_result", server: result(`{}`), reads: []string{"the server's answer has another form than the protocol demands"}},
		{name: "answers_with_null", server: result(`null`), reads: []string{"the server's answer has another form than the protocol demands"}},
		{name: "answers_with_text", server: result(`"x"`), reads: []string{"the server's answer has another form than the protocol demands"}},
		{name: "answers_with_an_array", server: result(`[]`), reads: []string{"the server's answer has another form than the protocol demands"}},
		{name: "answers_with_broken_json_in_a_call", server: result(`{"content":[`), reads: []string{"the server's answer is not valid JSON"}},
		{name: "answers_with_invalid_utf8", server: result("{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfe\\ud800b\"}]}"), reads: []string{"Output:a", "b"}, never: "\xff"},
		{name: "answers_with_controls", server: result(`{"content":[{"type":"text","text":"a\u0000\u001b[2J\u202eb"}]}`), reads: []string{"a\ufffd\ufffd[2J\ufffdb"}},
		{name: "answers_with_deep_json", server: result(`{"content":[],"structuredContent":%s}`, nested(100_000)), reads: []string{"the server's answer is not valid JSON"}},
		{name: "answers_with_deep_content", server: result(`{"content":[%s]}`, nested(5000)), reads: []string{"the server's answer is not valid JSON, or no answer of the protocol"}},
		{name: "answers_with_huge_numbers", server: result(`{"content":[],"structuredContent":{"a":1e99999,"b":%s}}`, strings.Repeat("9", 1000)), reads: []string{`{"a":1e99999,"b":999`}},
		{name: "answers_with_unknown_content", server: result(`{"content":[{"type":"smell","of":"roses"},5,null,{}]}`), reads: []string{`{"type":"smell","of":"roses"}`, "5", "null"}},
		{name: "answers_with_wrong_content", server: result(`{"content":"x","isError":"maybe"}`), reads: []string{`"x"`}},
		{name: "answers_with_an_empty_error", server: result(`{"isError":true}`), reads: []string{"the server's answer has another form than the protocol demands"}},
		{name: "answers_with_bad_base64", server: result(`{"content":[{"type":"image","mimeType":"image/png\n","data":"*"},{"type":"audio","data":5}]}`), reads: []string{"[image of type application/octet-stream that is not valid base64]"}},
		{name: "answers_with_a_false_image", group: "sizes", server: result(`{"content":[{"type":"image","mimeType":"image/png","data":"%s"}]}`, strings.Repeat("AAAA", 2<<20)), reads: []string{"Output:"}},
		{name: "answers_with_wrong_structure", server: func(h *hostileServer) {
			h.list = func(id, _ string) {
				h.result(id, `{"tools":[{"name":"t","annotations":{"readOnlyHint":true},"outputSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}]}`)
			}
			h.call = func(id, _ string) { h.result(id, `{"structuredContent":["wrong"],"content":[]}`) }
		}, reads: []string{`["wrong"]`}},
		{name: "answers_with_a_wrong_error", server: onCall(func(h *hostileServer, id string) { h.print(`{"jsonrpc":"2.0","id":%s,"error":"kaput"}`, id) }), reads: []string{"the server's answer is not valid JSON"}},
		{name: "answers_with_a_large_error", server: onCall(func(h *hostileServer, id string) {
			h.print(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"%s","data":"\u202e"}}`, id, strings.Repeat("x", 1<<20))
		}), reads: []string{"the server answered with error 1: xxx"}, never: strings.Repeat("x", 10_000)},
		{name: "answers_with_both", server: onCall(func(h *hostileServer, id string) {
			h.print(`{"jsonrpc":"2.0","id":%s,"result":%s,"error":{"code":1,"message":"both"}}`, id, mcpText("x"))
		}), reads: []string{"the server answered with error 1: both"}},
		{name: "asks_in_a_loop", server: onCall(func(h *hostileServer, id string) {
			for i := 0; ; i++ {
				h.ask(fmt.Sprint("e", i), "elicitation/create", `{"message":"again?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`)
			}
		}), block: quickCall, reads: []string{noAnswer}},
		{name: "asks_for_what_is_off", server: onCall(func(h *hostileServer, id string) {
			h.text(id, "%s|%s|%s", h.ask("s", "sampling/createMessage", `{"messages":[],"maxTokens":5}`), h.ask("u", "no/such", `{}`), h.ask(id, "elicitation/create", `5`))
		}), reads: []string{"Output:error -31001: client does not support CreateMessage|error -32601: method not found", "|error -32602"}},
		{name: "asks_for_roots_again_and_again", server: onCall(func(h *hostileServer, id string) {
			for i := range 500 {
				h.ask(fmt.Sprint("r", i), "roots/list", `{}`)
				h.ask(fmt.Sprint("p", i), "ping", `{}`)
			}
			h.text(id, "fine")
		})},
		{name: "sends_odd_notifications", server: onCall(func(h *hostileServer, id string) {
			for _, n := range []string{"cancelled", "progress", "message", "tools/list_changed", "resources/updated", "elicitation/complete", "initialized", "x"} {
				for _, params := range []string{"5", "null", `{"requestId":99,"progressToken":{},"progress":"x","level":5,"uri":[]}`, `{"requestId":` + id + `}`, `{"progressToken":` + id + `,"progress":1e999}`, `[]`} {
					h.print(`{"jsonrpc":"2.0","method":"notifications/%s","params":%s}`, n, params)
				}
			}
			h.text(id, "fine")
		})},
		{name: "changes_its_tools_all_the_time", server: onCall(func(h *hostileServer, id string) {
			until := time.Now().Add(1200 * time.Millisecond)
			before := h.lists
			go func() { // ends with the server
				tick := time.NewTicker(time.Millisecond)
				for now := range tick.C {
					if now.After(until) {
						break
					}
					h.print(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				<-time.After(time.Second)
				h.print(`{"jsonrpc":"2.0","id":"over","method":"ping"}`)
			}()
			for {
				switch m, ok := h.next(); {
				case !ok:
					os.Exit(0)
				case m.Method == "tools/list":
					h.lists++
					h.result(string(m.ID), fmt.Sprintf(`{"tools":[%s,{"name":"v%d"}]}`, mcpTool, h.lists))
				case string(m.ID) == `"over"`:
					if n := h.lists - before; n < 1 || n > 5 {
						h.text(id, "the tools were listed %d times", n)
					} else {
						h.text(id, "fine")
					}
					return
				}
			}
		})},

		// What takes time and memory.
		{name: "floods_junk", group: "floods", server: onCall(func(h *hostileServer, id string) { h.flood("no message\n", 20<<20); h.text(id, "fine") })},
		{name: "floods_errors", group: "floods", server: onCall(func(h *hostileServer, id string) {
			out := h.out
			h.out = bufio.NewWriterSize(os.Stderr, 1<<16)
			h.flood("an error\n", 20<<20)
			h.out = out
			h.text(id, "fine")
		})},
		{name: "floods_progress", group: "floods", server: func(h *hostileServer) {
			h.call = func(id, params string) {
				var p struct {
					Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
				}
				_ = json.Unmarshal([]byte(params), &p)
				h.flood(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"\u202e%s"}}`, p.Meta.ProgressToken, strings.Repeat("x", 500))+"\n", 10<<20)
				h.text(id, "fine")
			}
		}},
		{name: "floods_log_messages", group: "floods", server: onCall(func(h *hostileServer, id string) {
			h.flood(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":{"a":"`+strings.Repeat("x", 500)+`"}}}`+"\n", 10<<20)
			h.text(id, "fine")
		})},
		{name: "answers_with_ten_megabytes", group: "sizes", server: onCall(func(h *hostileServer, id string) { h.text(id, "begin %s end", strings.Repeat("x", 10<<20)) }), reads: []string{"begin", "end"}},
		{name: "writes_a_long_line", group: "lines", server: onCall(func(h *hostileServer, id string) {
			h.flood("x", 1)
			h.flood(strings.Repeat("x", 1<<20), 1<<30)
			h.flood("\n", 1)
			h.text(id, "fine")
		}), reads: []string{"has ended during the call: the server has sent a line of more than 268435456 bytes; the next call starts it again"}},
		{name: "answers_with_a_hundred_megabytes", group: "large", server: onCall(func(h *hostileServer, id string) {
			h.flood(`{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"`, 1)
			h.flood(strings.Repeat("x", 1_000_000), 100_000_000)
			h.flood(`"}]}}`+"\n", 1)
		}),
			reads: []string{"the server answered with error -32001: the server's answer is too large: the maximum is 16777216 bytes; ask for less at once"}},
		{name: "answers_with_a_line_without_end", group: "lines", server: onCall(func(h *hostileServer, id string) {
			h.flood(`{"jsonrpc":"2.0","id":`+id+`,"result":{"content":[{"type":"text","text":"`, 1)
			h.flood(strings.Repeat("x", 1<<20), 0)
		}), reads: []string{"the server's answer is too large: the maximum is 16777216 bytes; ask for less at once"}},
		{name: "writes_a_message_without_end", group: "lines", server: onCall(func(h *hostileServer, id string) {
			h.flood(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"`, 1)
			h.flood(strings.Repeat("x", 1<<20), 0)
		}), reads: []string{"has ended during the call: the server has sent a line of more than 268435456 bytes"}},
		{name: "answers_without_an_id_and_end", group: "lines", server: onCall(func(h *hostileServer, id string) {
			h.flood(`{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"`, 1)
			h.flood(strings.Repeat("x", 1<<20), 0)
		}), reads: []string{"the server's answer is too large: the maximum is 16777216 bytes; ask for less at once"}},

		// Addresses.
		{name: "never_ends_its_headers", web: func(w http.ResponseWriter, r *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			for i := 0; ; i++ {
				fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nX-%d: y\r\n", i)
				if rw.Flush() != nil {
					return
				}
				<-time.After(20 * time.Millisecond)
			}
		}, block: quickStart, fails: notReady},
		{name: "has_large_headers", web: web(func(w http.ResponseWriter, _ *http.Request, _ mcpMessage) bool {
			w.Header().Set("Set-Cookie", strings.Repeat("x", 12<<20))
			return false
		}), fails: "header"},
		{name: "is_a_web_page", web: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, fails: "is a web page, not a service"},
		{name: "is_plain_text", web: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "hi")
		}, fails: `answered with "text/plain" instead of JSON`},
		{name: "is_not_there", web: http.NotFound, fails: "(HTTP 404); check its url in the configuration"},
		{name: "redirects_in_a_loop", web: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}, fails: "redirect"},
		{name: "is_a_gzip_bomb", group: "sizes", web: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
			piece := make([]byte, 1<<20)
			for i := range 1 << 10 {
				if _, err := z.Write(piece); err != nil || i == 1<<10-1 {
					break
				}
			}
			_ = z.Close()
		}, fails: "the server's answer is too large"},
		{name: "forgets_each_session", web: web(func(w http.ResponseWriter, r *http.Request, m mcpMessage) bool {
			if w.Header().Set("Mcp-Session-Id", "s"); m.Method == "tools/call" {
				http.NotFound(w, r)
			}
			return m.Method == "tools/call"
		}), reads: []string{"HTTP 404"}},
		{name: "drips", web: web(func(w http.ResponseWriter, r *http.Request, m mcpMessage) bool {
			if m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			drip(w, r, " ")
			return true
		}), block: quickCall, reads: []string{noAnswer}},
		{name: "streams_no_event", web: web(func(w http.ResponseWriter, r *http.Request, m mcpMessage) bool {
			if m.Method != "tools/call" && r.Method != http.MethodGet {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			drip(w, r, ": nothing\n\n")
			return true
		}), block: quickCall, reads: []string{noAnswer}},
		{name: "streams_an_endless_event", group: "sizes", web: web(func(w http.ResponseWriter, r *http.Request, m mcpMessage) bool {
			if m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for piece := "data: " + strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, piece); err != nil {
					return true
				}
			}
		}), reads: []string{"the server's answer is too large: the maximum is 16777216 bytes; ask for less at once"}},
		{name: "accepts_a_call_without_an_answer", web: web(func(w http.ResponseWriter, _ *http.Request, m mcpMessage) bool {
			if m.Method == "tools/call" {
				w.WriteHeader(http.StatusAccepted)
			}
			return m.Method == "tools/call"
		}), reads: []string{"answered with"}},
		{name: "breaks_off", web: web(func(w http.ResponseWriter, _ *http.Request, m mcpMessage) bool {
			if m.Method != "tools/call" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"jsonrpc":`)
			return true
		}), reads: []string{"unexpected EOF"}},
	}
}

// The memory that the plugin may take at most in a run, in bytes: with messages that are small or refused, and with ones that are just not
// too large, of which it holds several copies while it converts them.
const (
	maxPlugin      = 64 << 20
	maxPluginLarge = 256 << 20
)

// longestCall is how long a call may take on a busy machine; most take milliseconds, or the second of their timeout.
const longestCall = 20 * time.Second

// Whatever servers do, calls and starts have an end that says what to do, the plugin's memory is bounded, other servers are not affected,
// and nothing is left.
func TestHostileMCPServers(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/var/tmp", "gantry-e2e-") // a server's sandbox has a /tmp of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "hostile")
	rig.CopyProgram(t, self, program, 0o755)
	groups := map[string][]hostileRow{}
	for _, row := range hostileMCP() {
		group := row.group
		switch {
		case group != "":
		case row.fails != "":
			group = "starts"
		case row.web != nil:
			group = "addresses"
		default:
			group = "calls"
		}
		groups[group] = append(groups[group], row)
	}
	for group, rows := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			most := int64(maxPlugin)
			if group == "sizes" {
				most = maxPluginLarge
			}
			runHostile(t, program, rows, most)
		})
	}
}

// runHostile runs the servers of a group in one process of gantry, calls those that start, and looks at what is said of all.
func runHostile(t *testing.T, program string, rows []hostileRow, most int64) {
	var blocks, script strings.Builder
	want := map[string][]string{}
	for _, row := range rows {
		fmt.Fprintf(&blocks, "server %q {\n  approval = \"approve\"\n%s\n", row.name, row.block)
		if row.web != nil {
			web := httptest.NewServer(row.web)
			t.Cleanup(func() {
				web.CloseClientConnections()
				web.Close()
			})
			fmt.Fprintf(&blocks, "  url = %q\n", web.URL)
		} else {
			fmt.Fprintf(&blocks, "  command = %q\n  args = [%q]\n  env = { %s = \"1\" }\n", program, row.name, hostileMCPMode)
		}
		if row.fails == "" {
			blocks.WriteString("  required = true\n")
			script.WriteString(mcpCall(row.name, "mcp__"+row.name, "t", ""))
			if want[row.name] = row.reads; row.reads == nil {
				want[row.name] = []string{"Output:fine"}
			}
		}
		blocks.WriteString("}\n")
	}
	r := boxed(t, script.String()+finished)
	addMCP(t, r, blocks.String())
	var peak int64
	watch := func(args ...string) rig.Result {
		run := r.Start(args...)
		sample(run, 20*time.Millisecond, func() {
			for _, pid := range rig.Processes(t, r.Home, "gantry-tool-mcp") {
				peak = max(peak, peakRSS(pid))
			}
		})
		return run.Wait()
	}
	res := watch("exec", "go")
	if res.Code != 0 {
		t.Errorf("exit %d:\n%s", res.Code, res.Stderr)
	}
	outputs := r.Last().Outputs()
	wantOutputs(t, outputs, want)
	for id, out := range outputs {
		var took float64
		if _, err := fmt.Sscanf(out, "Wall time: %f seconds", &took); err != nil || took > longestCall.Seconds() {
			t.Errorf("%s has taken %v s: %.200q", id, took, out)
		}
	}
	var listed struct {
		Servers []struct{ Name, State, Message string }
	}
	if err := json.Unmarshal([]byte(watch("mcp", "list", "--json").Stdout), &listed); err != nil {
		t.Fatal(err)
	}
	for _, s := range listed.Servers {
		row := rows[slices.IndexFunc(rows, func(row hostileRow) bool { return row.name == s.Name })]
		state := "ready"
		if row.fails != "" {
			state = "failed"
		}
		if s.State != state || !strings.Contains(s.Message, row.fails+row.warns) || strings.ContainsAny(s.Message, "\x1b\u202e\x00") {
			t.Errorf("%s is %s, which is explained by %q; want %q", s.Name, s.State, s.Message, row.fails+row.warns)
		}
		if out := outputs[s.Name]; row.never != "" && strings.Contains(out, row.never) {
			t.Errorf("%s: the model reads %.2000q", s.Name, out)
		}
	}
	if peak > most || peak == 0 {
		t.Errorf("the plugin has taken %d MiB; want at most %d", peak>>20, most>>20)
	}
	r.NothingLeft()
}
