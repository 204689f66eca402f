package llm

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestMessageJSON(t *testing.T) {
	m := Message{ID: "m1", Role: RoleAssistant, Metadata: Metadata{"v": json.RawMessage(`{"a":1}`)}, Parts: []Part{
		&Text{Text: "hi"},
		&Text{},
		&Media{MediaType: "image/png", Data: []byte{1, 2}, Detail: "high"},
		&Reasoning{},
		&ToolCall{ID: "c", Name: "look", Input: `{"q":1}`, Freeform: true},
		&ToolResult{ID: "c", Content: Parts{&Text{Text: "seen"}, &Media{MediaType: "image/png", URL: "https://example.com/a.png"}}, IsError: true},
	}}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got Message
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	if !reflect.DeepEqual(got, m) {
		t.Errorf("came back as %+v, was %+v", got, m)
	}
	if !strings.Contains(string(b), `{"type":"reasoning"}`) || !strings.Contains(string(b), `{"type":"text","text":"hi"}`) {
		t.Errorf("form: %s", b)
	}
}

func TestPartsJSONRefuses(t *testing.T) {
	for _, s := range []string{`{}`, `[{"type":"hologram"}]`, `[1]`, `[{"type":"text","text":1}]`, `[{}]`} {
		var ps Parts
		if err := json.Unmarshal([]byte(s), &ps); err == nil {
			t.Errorf("accepted %s as %v", s, ps)
		}
	}
}

func TestNamesReadBack(t *testing.T) {
	for r := RoleUnknown; r <= RoleTool; r++ {
		var got Role
		if b, _ := r.MarshalText(); got.UnmarshalText(b) != nil || got != r {
			t.Errorf("role %d is named %q, which is %d", r, b, got)
		}
	}
	for r := FinishUnknown; r <= FinishError; r++ {
		var got FinishReason
		if b, _ := r.MarshalText(); got.UnmarshalText(b) != nil || got != r {
			t.Errorf("reason %d is named %q, which is %d", r, b, got)
		}
	}
	for c := ErrUnknown; c <= ErrOverloaded; c++ {
		var got ErrorCode
		if b, _ := c.MarshalText(); got.UnmarshalText(b) != nil || got != c {
			t.Errorf("code %d is named %q, which is %d", c, b, got)
		}
	}
	if Role(-1).String() != "unknown" || ErrorCode(99).String() != "unknown" {
		t.Error("a value outside has a name")
	}
}

func TestErrorText(t *testing.T) {
	if s := (&Error{Code: ErrRateLimit, RetryAfter: time.Second}).Error(); s != "rate limit" {
		t.Errorf("without a message: %q", s)
	}
	if s := (&Error{Code: ErrRateLimit, Message: "slow down"}).Error(); s != "slow down" {
		t.Errorf("with a message: %q", s)
	}
}

func FuzzMessageJSON(f *testing.F) {
	f.Add(`{"role":"user","parts":[{"type":"text","text":"hi"}]}`)
	f.Add(`{"role":"tool","parts":[{"type":"tool-result","id":"c","content":[{"type":"media","mediaType":"image/png","data":"AQI="}]}]}`)
	f.Add(`{"role":"assistant","parts":[{"type":"reasoning"},{"type":"tool-call","id":"c","name":"n","input":"{}"}],"providerMetadata":{"v":{}}}`)
	f.Fuzz(func(t *testing.T, s string) {
		var m Message
		if json.Unmarshal([]byte(s), &m) != nil {
			return
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%q was read as %+v, which can't be written: %v", s, m, err)
		}
		var again Message
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatalf("%s can't be read: %v", b, err)
		}
		if b2, err := json.Marshal(again); err != nil || string(b) != string(b2) {
			t.Fatalf("%s\nis written again as\n%s, %v", b, b2, err)
		}
	})
}
