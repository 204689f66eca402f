package codemode

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	long := strings.Repeat("AAAA", 1024)
	for _, c := range []struct{ name, value, want string }{
		{"long base64", `"` + long + `"`, `"[base64 data omitted: 4,096 chars, approximately 3,072 bytes]"`},
		{"padded base64", `"` + long + `AA=="`, `"[base64 data omitted: 4,100 chars, approximately 3,075 bytes]"`},
		{"short base64", `"AQID"`, `"AQID"`},
		{"base64url", `"` + long[:4092] + `__-_"`, `"` + long[:4092] + `__-_"`},
		{"a length that base64 can't have", `"` + long + `A"`, `"` + long + `A"`},
		{"data URL", `["data:image/png;base64,` + long + `"]`, `["[base64 image/png data omitted: 4,096 chars, approximately 3,072 bytes]"]`},
		{"screenshot", `{"data":"AQID","mediaType":"image/png","type":"browser_screenshot"}`,
			`{"data":"[base64 image/png data omitted: 4 chars, approximately 3 bytes]","mediaType":"image/png","type":"browser_screenshot"}`},
		{"nesting", strings.Repeat("[", 22) + strings.Repeat("]", 22), strings.Repeat("[", 21) + `"[nested value omitted]"` + strings.Repeat("]", 21)},
		{"scalars", `[null,true,1.5,"x",{},[]]`, `[null,true,1.5,"x",{},[]]`},
	} {
		var v any
		if err := json.Unmarshal([]byte(c.value), &v); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(Redact(v)); string(got) != c.want {
			t.Errorf("%s: %.200s", c.name, got)
		}
	}
}

func TestRedactBounds(t *testing.T) {
	cycle := map[string]any{}
	cycle["self"] = cycle
	if got, _ := json.Marshal(Redact(cycle)); string(got) != `{"self":"[circular reference omitted]"}` {
		t.Errorf("%s", got)
	}
	many := make([]any, 20_000)
	got := Redact(many).([]any)
	if len(got) != redactNodes || got[len(got)-1] != "[remaining values omitted]" {
		t.Errorf("%d values", len(got))
	}
	if got := Redact([]any{func() {}}).([]any); got[0] != "[value without a JSON form]" {
		t.Errorf("%v", got)
	}
	url := "data:image/png" + strings.Repeat(";x", 4096)
	if got := Redact(url); got != url {
		t.Errorf("%v", got)
	}
}

func TestScreenshotNote(t *testing.T) {
	note, ok := ScreenshotNote(map[string]any{"type": "browser_screenshot", "mediaType": "image/png", "data": strings.Repeat("A", 4000)})
	if !ok || note != "Screenshot captured (image/png, approximately 3,000 bytes). It is kept for the user interface and omitted here." {
		t.Errorf("%q", note)
	}
	if _, ok := ScreenshotNote(map[string]any{"type": "other"}); ok {
		t.Error("a note for something else")
	}
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"type":"browser_screenshot","data":"AQID"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) == nil {
			if _, err := json.Marshal(Redact(v)); err != nil {
				t.Error(err)
			}
		}
	})
}
