package target

import "testing"

func TestMockPatterns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		pattern, url string
		want         bool
	}{
		{"a.example/x", "https://a.example/x#part", true},
		{"a.example/x", "https://a.example/x?q", false},
		{"a.example/x*", "http://a.example/x?q", true},
		{"https://a.example/*", "http://a.example/x", false},
		{"*.a.example/*", "https://b.a.example/x", true},
		{"*.a.example/*", "https://evil.example/?.a.example/", false},
		{"https://*/api/*/end", "https://h/api/1/2/end", true},
		{"https://*/api/*/end", "https://h/api/end", false},
		{"a*a", "http://a", false},
	} {
		if got := (Mock{Pattern: row.pattern}).matches(row.url); got != row.want {
			t.Errorf("%s, %s: %v", row.pattern, row.url, got)
		}
	}
}
