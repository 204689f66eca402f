package orchestrate

import (
	"encoding/json"
	"fmt"
	"github.com/gantry-agent/gantry/host/internal/redact"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestItemListsArtifacts(t *testing.T) {
	digest := func(i int) string { return fmt.Sprintf("%064x", i) }
	s := newItem(Call{Model: &llm.ToolCall{}}, nil, nil)
	for _, bad := range []string{"", "abc", strings.Repeat("A", 64), strings.Repeat("z", 64)} {
		s.stored(contract.ArtifactRef{SHA256: bad})
	}
	s.assessed(&contract.ImageItem{Path: "/a.png", ArtifactSHA256: digest(0)})
	s.observe(contract.ArtifactRef{SHA256: digest(0), SizeBytes: 3, MediaType: "image/png", Name: strings.Repeat("é", 200)})
	s.assessed(&contract.ImageItem{Path: "/a.png", ArtifactSHA256: digest(0)})
	want := event.Artifact{SHA256: digest(0), Bytes: 3, MediaType: "image/png", Name: strings.Repeat("é", 127)}
	if len(s.item.Artifacts) != 1 || s.item.Artifacts[0] != want {
		t.Errorf("artifacts %+v, want %+v", s.item.Artifacts, want)
	}
	notes := 0
	for i := range 2 * maxItemArtifacts {
		if s.observe(contract.ArtifactRef{SHA256: digest(i)}) != nil {
			notes++
		}
	}
	if len(s.item.Artifacts) != maxItemArtifacts || notes != 1 {
		t.Errorf("%d artifacts and %d notes that there are more, want %d and 1", len(s.item.Artifacts), notes, maxItemArtifacts)
	}
}

// A call works on the session that its item names.
func TestSessionsOfItems(t *testing.T) {
	for _, it := range []contract.Item{&contract.CommandItem{SessionID: "k"}, &contract.CodeItem{SessionID: "k"}} {
		s := &subject{assessment: contract.Assessment{Item: it}}
		if got := s.sessionIDs(); len(got) != 1 || got[0] != "k" {
			t.Errorf("%T: %q", it, got)
		}
	}
}

// An item keeps the result of an MCP server's tool in the server's order, without secrets, with media by reference only, and bounded.
func TestResultsOfMCPItems(t *testing.T) {
	secrets := &redact.Redactor{}
	secrets.Add("the-secret-value")
	digest := strings.Repeat("a", 64)
	for _, tc := range []struct{ name, raw, want string }{
		{"as it came", `{"structuredContent": {"z": "<1>", "a": 2},  "content": [{"type":"text","text":"hi"}], "isError":true, "_meta":{"m":1}}`,
			`{"content":[{"type":"text","text":"hi"}],"structuredContent":{"z":"<1>","a":2},"isError":true,"_meta":{"m":1}}`},
		{"a secret", `{"content":[{"type":"text","text":"it is the-secret-value"}]}`, `{"content":[{"type":"text","text":"it is ` + redact.Placeholder + `"}]}`},
		{"media", `{"content":[{"type":"image","data":"aGVsbG8=","mimeType":"image/png"},{"type":"audio","data":"gantry-artifact:` + digest + `"},{"type":"resource","resource":{"uri":"a:b","blob":"aGVsbG8="}}]}`,
			`{"content":[{"mimeType":"image/png","type":"image"},{"type":"audio","data":"gantry-artifact:` + digest + `"},{"resource":{"uri":"a:b"},"type":"resource"}]}`},
		{"blocks of no known type", `{"content":[1,"a",{"type":"later","data":{"x":1}}]}`, `{"content":[1,"a",{"type":"later","data":{"x":1}}]}`},
		{"without content", `{"structuredContent":{}}`, `{"content":[],"structuredContent":{}}`},
		{"no object", `[]`, ""}, {"no JSON", `{nope`, ""}, {"nothing", "", ""},
		{"too large", `{"content":[{"type":"text","text":"` + strings.Repeat("x", maxMCPResult) + `"}]}`, ""},
	} {
		s := itemState{redact: secrets}
		s.assessed(&contract.MCPCallItem{Server: "s", Tool: "t", Title: "Title", ReadOnly: true, Error: "it needs the-secret-value", Result: json.RawMessage(tc.raw)})
		if string(s.item.Result) != tc.want {
			t.Errorf("%s: %.300s\nwant %.300s", tc.name, s.item.Result, tc.want)
		}
		if s.item.Error != "it needs "+redact.Placeholder || !s.item.ReadOnly || s.item.Text != "Title" || s.title() == "Title" {
			t.Errorf("the item is %+v, its title %q", s.item, s.title())
		}
	}
}

// A step in a browser names the tab and its page, and lists the picture as an artifact. Titles are written by strangers, or contain what was
// typed.
func TestBrowserItem(t *testing.T) {
	secrets := &redact.Redactor{}
	secrets.Add("the-secret-value")
	s := itemState{redact: secrets}
	digest := strings.Repeat("ab", 32)
	s.assessed(&contract.BrowserItem{
		Action: "click", URL: "https://a.test/", Tab: "b", Title: "the-secret-value", Picture: contract.ArtifactRef{SHA256: digest, MediaType: "image/jpeg", SizeBytes: 9},
	})
	s.assessed(&contract.BrowserItem{Action: "click", URL: "https://a.test/", Tab: "b", Title: "the-secret-value"})
	it := s.item
	if it.Type != event.ItemBrowser || it.Text != "click" || it.URL != "https://a.test/" || it.Tab != "b" || it.Title != redact.Placeholder ||
		len(it.Artifacts) != 1 || it.Artifacts[0] != (event.Artifact{SHA256: digest, MediaType: "image/jpeg", Bytes: 9}) {
		t.Errorf("the item is %+v", it)
	}
}
