package codemode

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTruncateResponse(t *testing.T) {
	if got := TruncateResponse("hello", Limit{}); got != "hello" {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		text  string
		limit Limit
		want  string
	}{
		{strings.Repeat("y", 50), Limit{MaxTokens: 2}, strings.Repeat("y", 8) + "\n\n--- TRUNCATED ---\nResponse was ~13 tokens (limit: 2). Narrow the request to reduce response size."},
		{strings.Repeat("x", 100), Limit{MaxChars: 10}, strings.Repeat("x", 10) + "\n\n--- TRUNCATED ---\nResponse was ~25 tokens (limit: 3). Narrow the request to reduce response size."},
		{strings.Repeat("z", 25_000), Limit{}, strings.Repeat("z", 24_000) + "\n\n--- TRUNCATED ---\nResponse was ~6,250 tokens (limit: 6,000). Narrow the request to reduce response size."},
		{strings.Repeat("ü", 9), Limit{MaxTokens: 2}, strings.Repeat("ü", 8) + "\n\n--- TRUNCATED ---\nResponse was ~3 tokens (limit: 2). Narrow the request to reduce response size."},
	} {
		if got := TruncateResponse(c.text, c.limit); got != c.want {
			t.Errorf("%q", got)
		}
	}
}

func TestTruncateResult(t *testing.T) {
	small := map[string]any{"a": 1.0}
	if got := TruncateResult(small, Limit{MaxChars: 1000}); reflect.ValueOf(got).Pointer() != reflect.ValueOf(small).Pointer() {
		t.Errorf("a small value was copied: %v", got)
	}
	cycle := map[string]any{}
	cycle["self"] = cycle
	if got, ok := TruncateResult(cycle, Limit{MaxChars: 1}).(map[string]any); !ok || got == nil {
		t.Error("a value without JSON was changed")
	}
	if got := TruncateResult(nil, Limit{MaxChars: 1}); got != nil {
		t.Errorf("%v", got)
	}
	if got, ok := TruncateResult(make([]int, 500), Limit{MaxChars: 50}).(string); !ok || !strings.HasPrefix(got, "[\n  0,\n") || !strings.Contains(got, markerStart) {
		t.Errorf("%q", got)
	}
}

func TestSandboxResponseText(t *testing.T) {
	done := TruncateResponse(strings.Repeat("z", 25_000), Limit{})
	if got := SandboxResponseText(done); got != done {
		t.Errorf("truncated twice: %q", got[24_000:])
	}
	forged := strings.Repeat("z", 100) + markerStart + strings.Repeat("z", 30_000)
	if got := SandboxResponseText(forged); utf8.RuneCountInString(got) > 24_000+markerChars || got[:24_000] != forged[:24_000] {
		t.Errorf("a marker elsewhere was trusted: %d characters", len(got))
	}
	if got := SandboxResponseText(map[string]any{"a": "<b>"}); got != "{\n  \"a\": \"<b>\"\n}" {
		t.Errorf("%q", got)
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("héllo", 3)
	f.Fuzz(func(t *testing.T, text string, chars int) {
		limit := Limit{MaxChars: chars%100 + 100}
		got := TruncateResponse(text, limit)
		head, _, cut := strings.Cut(got, markerStart)
		if utf8.ValidString(text) && !utf8.ValidString(got) || cut && !strings.HasPrefix(text, head) || !cut && got != text {
			t.Errorf("%q: %q", text, got)
		}
	})
}
