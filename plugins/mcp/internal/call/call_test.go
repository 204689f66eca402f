package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

func TestArguments(t *testing.T) { // M6
	for in, want := range map[string]string{
		`[1]`: "error: the arguments are not a JSON object", `null`: "error: the arguments are not a JSON object", `{bad`: "error: the arguments are not JSON: invalid character 'b'",
		``: "{}", " \n": "{}", ` {"z":1, "a":2}`: `{"z":1, "a":2}`,
	} {
		got, err := Arguments(json.RawMessage(in))
		if err != nil {
			got = json.RawMessage("error: " + err.Error())
		}
		if !strings.HasPrefix(string(got), want) {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

// show describes parts for tests.
func show(r *contract.Result) string {
	var out []string
	for _, p := range r.Parts {
		switch p := p.(type) {
		case *contract.TextPart:
			out = append(out, p.Text)
		case *contract.MediaPart:
			out = append(out, fmt.Sprintf("<%s %s %q for %d>", p.MediaType, p.Detail, p.Data[:min(len(p.Data), 10)], p.Audience))
		}
	}
	if r.IsError {
		out = append(out, "(error)")
	}
	return strings.Join(out, "|")
}

func TestResult(t *testing.T) {
	const h = "Wall time: 0.0010 seconds\nOutput:"
	blob := strings.Repeat("QUJD", 2000)
	for _, tc := range []struct {
		name, in, want string
		beside         bool
	}{
		{"M1", `{"content":[{"type":"text","text":"hi"}]}`, h + "|hi", false},
		{"15.11, two blocks", `{"content":[{"type":"text","text":"hi","annotations":{"audience":["user"]}},{"type":"text","text":"second"}]}`, h + "|hi|second", false},
		{"M2", `{"content":[]}`, h, false},
		{"nothing at all", `{}`, h, false},
		{"M3", `{"content":[{"type":"text","text":"t"},{"type":"image","data":"QUJD","mimeType":"image/png"},{"type":"resource_link","uri":"x://y", "name":"n"}]}`,
			h + `|t|<image/png high "ABC" for 0>|{"type":"resource_link","uri":"x://y","name":"n"}`, false},
		{"M4", `{"structuredContent": {"z":1,"a":{"k":[1,2]}}, "content":[{"type":"text","text":"hidden"}]}`, h + "\n" + `{"z":1,"a":{"k":[1,2]}}`, false},
		{"structured, with blocks", `{"structuredContent":{"z":1},"content":[{"type":"text","text":"shown"}]}`, h + "\n" + `{"z":1}|shown`, true},
		{"structured null", `{"structuredContent":null,"content":[{"type":"text","text":"hi"}]}`, h + "|hi", false},
		{"structured, not an object", `{"structuredContent":[1]}`, h + "\n[1]", false},
		{"15.11, error", `{"isError":true,"content":[{"type":"text","text":"boom"}]}`, h + "\n|boom|(error)", false},
		{"detail and type", `{"content":[{"type":"image","data":"QUI","_meta":{"codex/imageDetail":"low"}},{"type":"image","data":"QUJD","mimeType":"a b\n","_meta":{"codex/imageDetail":"huge"}}]}`,
			h + `|<application/octet-stream low "AB" for 0>|<application/octet-stream high "ABC" for 0>`, false},
		{"audio", `{"content":[{"type":"audio","data":"QUJD","mimeType":"audio/wav"}]}`, h + `|<audio/wav  "ABC" for 0>`, false},
		{"not base64", `{"content":[{"type":"image","data":"%%","mimeType":"image/png"}]}`, h + "|[image of type image/png that is not valid base64]", false},
		{"unknown", `{"content":[{"type":"hologram", "z":1, "a":[ 2 ]}, 5, null, {"type":"text"}]}`, h + `|{"type":"hologram","z":1,"a":[2]}|5|null|{"type":"text"}`, false},
		{"no list", `{"content":{"type":"text","text":"hi"}}`, h + "|hi", false},
		{"resource", `{"content":[{"type":"resource","resource":{"uri":"x://y","blob":"QUJD"}}]}`, h + `|{"type":"resource","resource":{"uri":"x://y","blob":"QUJD"}}`, false},
		{"large resource", `{"content":[{"type":"resource","resource":{"uri":"x://y","mimeType":"image/png","blob":"` + blob + `","_meta":{}}}]}`,
			h + `|{"type":"resource","resource":{"uri":"x://y","mimeType":"image/png","blob":"[6000 bytes]","_meta":{}}}|<image/png  "ABCABCABCA" for 2>`, false},
		{"characters", `{"content":[{"type":"text","text":"a\u001b[31m\u202eb"},{"type":"x","a":"` + "\u202e" + `"}]}`, h + "|a\uFFFD[31m\uFFFDb|" + `{"type":"x","a":"\u202e"}`, false},
	} {
		if got := show(Result(json.RawMessage(tc.in), time.Millisecond, tc.beside)); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	r := Result(json.RawMessage(`{"_meta":{"secret":1},"structuredContent":{"z":1,"a":2},"content":[],"isError":false}`), 0, false)
	if string(r.Structured) != `{"structuredContent":{"z":1,"a":2},"content":[],"isError":false}` {
		t.Errorf("code gets %s", r.Structured)
	}
}

func TestErrors(t *testing.T) { // M5
	err := fmt.Errorf("calling %q: %w", "tools/call", &jsonrpc.Error{Code: -32603, Message: "kaput\x1b", Data: json.RawMessage(`{"x": 1}`)})
	if got := show(Failed(err, 0)); got != "Wall time: 0.0000 seconds\nOutput:\n|the server answered with error -32603: kaput\ndata: {\"x\":1}|(error)" {
		t.Error(got)
	}
	if got := ErrorText(errors.New(strings.Repeat("x", 1<<20))); len(got) != maxError {
		t.Errorf("%d bytes", len(got))
	}
}

func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"structuredContent":{"z":1},"content":[{"type":"image","data":"QUJD"},{"type":"resource","resource":{"blob":"x"}},5],"isError":true,"_meta":{}}`))
	f.Add([]byte(`{"content":{"type":"text","text":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, beside := range []bool{false, true} {
			r := Result(raw, time.Second, beside)
			if len(r.Parts) == 0 {
				t.Fatal("a result without parts")
			}
			for _, p := range r.Parts {
				if p, ok := p.(*contract.TextPart); ok && strings.ContainsAny(p.Text, "\x00\x1b\u202e") {
					t.Fatalf("%q", p.Text)
				}
			}
			if len(r.Structured) > 0 && !json.Valid(r.Structured) {
				t.Fatalf("code gets %s", r.Structured)
			}
		}
	})
}

func TestElicit(t *testing.T) {
	form := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}}
	for _, tc := range []struct {
		name   string
		p      mcp.ElicitParams
		answer tool.Answer
		want   string // action and content, or an error
	}{
		{"form", mcp.ElicitParams{Message: "m", RequestedSchema: form}, tool.Answer{JSON: json.RawMessage(`{"name":"x"}`)}, `accept {"name":"x"}`},
		{"declined", mcp.ElicitParams{RequestedSchema: form}, tool.Answer{Declined: true}, "decline null"},
		{"dismissed", mcp.ElicitParams{RequestedSchema: form}, tool.Answer{Dismissed: true}, "cancel null"},
		{"cancelled", mcp.ElicitParams{RequestedSchema: form}, tool.Answer{Cancelled: true}, "cancel null"},
		{"address, dismissed", mcp.ElicitParams{Mode: "url", URL: "https://x.test/y"}, tool.Answer{Dismissed: true}, "cancel null"},
		{"not an object", mcp.ElicitParams{RequestedSchema: form}, tool.Answer{JSON: json.RawMessage(`"x"`)}, "error: the answer is not a JSON object"},
		{"nothing to fill in", mcp.ElicitParams{}, tool.Answer{JSON: json.RawMessage(`"accept"`)}, "accept {}"},
		{"nothing to fill in, declined", mcp.ElicitParams{}, tool.Answer{JSON: json.RawMessage(`"decline"`)}, "decline null"},
		{"address", mcp.ElicitParams{Mode: "url", URL: "https://x.test/y"}, tool.Answer{JSON: json.RawMessage(`{}`)}, "accept null"},
		{"no address", mcp.ElicitParams{Mode: "url", URL: "file:///etc/passwd"}, tool.Answer{}, "error: \"file:///etc/passwd\" is not an address"},
		{"an address that seems to lead elsewhere", mcp.ElicitParams{Mode: "url", URL: "https://bank.test@x.test/"}, tool.Answer{}, "error: \"https://bank.test@x.test/\" is not an address"},
		{"another scheme", mcp.ElicitParams{Mode: "url", URL: "ftp://x.test/y"}, tool.Answer{}, "error: \"ftp://x.test/y\" is not an address"},
		{"unknown kind", mcp.ElicitParams{Mode: "dance"}, tool.Answer{}, "error: questions of the kind \"dance\""},
	} {
		got, err := Elicit(t.Context(), "srv", &tc.p, func(_ context.Context, q tool.Question) (tool.Answer, error) {
			if !strings.Contains(q.Title, `"srv"`) || q.Source != "srv" || (len(q.FormSchema) > 0) != (tc.p.RequestedSchema != nil) || q.URL != tc.p.URL {
				t.Errorf("%s: question %+v", tc.name, q)
			}
			return tc.answer, nil
		})
		s := ""
		if err != nil {
			s = "error: " + err.Error()
		} else {
			b, _ := json.Marshal(got.Content)
			s = got.Action + " " + string(b)
		}
		if !strings.HasPrefix(s, tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, s, tc.want)
		}
	}
}
