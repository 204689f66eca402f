package policy_test

import (
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
)

// The rows of the reference. Where ours is stricter, or compares without case, the row says so.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		url, allow, deny string
		ok               bool
	}{
		{"https://example.com/x", "example.com", "", true},
		{"https://www.example.com", "example.com", "", true},
		{"https://user:pw@example.com/", "example.com", "", true},
		{"https://sub.example.com", "example.com", "", false},
		{"https://evil.com/?u=example.com", "example.com", "", false},
		{"https://example.com", "www.example.com", "", false},
		{"https://a.b.example.com", "*.example.com", "", true},
		{"https://example.com", "*.example.com", "", true},
		{"https://notexample.com", "*.example.com", "", false},
		{"ftp://a.example.com", "*.example.com", "", false},
		{"https://EXAMPLE.com", "Example.COM", "", true},
		{"https://A.example.com", "*.EXAMPLE.com", "", true},             // without case
		{"https://example.com:8443/a", "https://example.com", "", false}, // a port is compared
		{"https://example.com:8443/a", "https://example.com:8443", "", true},
		{"https://example.com.evil.org", "https://example.com", "", false}, // not a prefix
		{"https://example.com@evil.org/", "https://example.com", "", false},
		{"http://example.com", "https://example.com", "", false},
		{"https://example.com/path", "http*://example.com/*", "", true},
		{"https://agoogle.com", "*google.com", "", true},
		{"https://google.co.uk", "google.*", "", true},
		{"https://www.example.co.uk", "example.co.uk", "", false},
		{"https://example.co.uk", "example.co.uk", "", true},
		{"about:blank", "example.com", "", true},
		{"data:text/html,hi", "example.com", "", false}, // not typed by a model
		{"blob:https://evil.com/uuid", "example.com", "", false},
		{"chrome://settings", "", "", false}, // only http and https
		{"file:///etc/passwd", "", "", false},
		{"javascript:alert(1)", "", "", false},
		{"", "", "", false},
		{"not a url", "", "", false},
		{"http://[::1]:80/", "[::1]", "", true},
		{"https://example.com", "", "example.com", false},
		{"https://www.example.com", "", "example.com", false},
		{"https://sub.example.com", "", "example.com", false}, // with subdomains
		{"https://x.com", "", "example.com", true},
		{"https://example.com", "example.com", "example.com", false}, // what is denied is denied
		{"https://example.com.", "", "example.com", false},
	} {
		list := func(s string) []string {
			if s == "" {
				return nil
			}
			return []string{s}
		}
		p, err := policy.New(list(row.allow), list(row.deny))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(row.url); (err == nil) != row.ok {
			t.Errorf("%s, allow %q, deny %q: %v", row.url, row.allow, row.deny, err)
		}
	}
	for _, bad := range []string{"", "https://", "a/b", "[", "a b"} {
		if _, err := policy.New([]string{bad}, nil); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

func FuzzAddresses(f *testing.F) {
	f.Add("https://example.com@evil.org/", "https://example.com")
	f.Fuzz(func(t *testing.T, url, pattern string) {
		if p, err := policy.New([]string{pattern}, nil); err == nil {
			_ = p.Check(url)
		}
	})
}
