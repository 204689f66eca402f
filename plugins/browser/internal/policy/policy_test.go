package policy_test

import (
	"strings"
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
		{"chrome-extension://abc/x.html", "", "", false}, // no pattern can allow it
		{"https://x.y", "https://*", "", true},
		{"http://x.y", "https://*", "", false},
		{"chrome://newtab/", "example.com", "", false}, // no page of the browser's own
		{"chrome://new-tab-page", "", "", false},
		{"about:srcdoc", "example.com", "", true},
		{"about:settings", "", "", false},
		{"blob:https://example.com/uuid", "example.com", "", false}, // only a page opens it
		{"https://example.com", "", "", true},
		{"https://d1.com", "www.d1.com", "", false}, // the reference is laxer in long lists
		{"https://a.d1.com", "*.d1.com", "", true},
		{"https://c.com", "a.com", "b.com", false},
		{"https://www.d1.com", "d1.com", "", true},
		{"https://a.d1.com", "d1.com", "", false},
		{"wss://example.com/socket", "example.com", "", true},
		{"ws://example.com/socket", "https://example.com", "", false},
		{"wss://evil.org/?example.com", "example.com", "", false},
		{"https://example.com\\@evil.org/", "example.com", "", false},
		{"https://evil.org\\.example.com/", "*.example.com", "", false},
		{"https:evil.org", "", "", false},
		{"https:/evil.org", "", "", false},
		{"//evil.org", "", "", false},
		{"https://exam\nple.com", "", "", false},
		{"https://[::1%25lo]/", "", "", false},
		{"https://example.com:99999/", "", "", false},
		{"https://example.com:0443/", "https://example.com", "", true},
		{"https://example.com:/", "https://example.com", "", true},
		{"https://m\u00fcnchen.de", "xn--mnchen-3ya.de", "", true},
		{"https://xn--mnchen-3ya.de", "M\u00dcnchen.de", "", true},
		{"https://a.xn--mnchen-3ya.de", "*.m\u00fcnchen.de", "", true},
		{"https://\u0435xample.com", "example.com", "", false}, // a Cyrillic letter
		{"https://example.com", "example.com.", "", true},
		{"https://example.com.", "example.com", "", true}, // the same host
		{"https://example.com..", "", "", false},
		{"https://.example.com", "", "", false},
		{"chrome://settings", "", "", false},
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
	for _, bad := range []string{"", "https://", "chrome-extension://*", "brave://*", "file://*", "a/b", "[", "a b", "a.b:x", "a@b", "1.2.3.4.5", "a?", "a..b", "::1::"} {
		if _, err := policy.New([]string{bad}, nil); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// A denied IP address is denied in every notation. Addresses of names are the proxy's to judge.
func TestNotations(t *testing.T) {
	t.Parallel()
	p, err := policy.New(nil, []string{"127.0.0.1", "[::1]", "0.0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"http://127.0.0.1", "http://[::1]/", "http://2130706433/", "http://0x7f000001/", "http://0X7F.1/", "http://0177.0.0.1/", "http://017700000001/", "http://127.1/", "http://127.0.1/",
		"http://127%2e0%2e0%2e1/", "http://\uff11\uff12\uff17.0.0.1/", "http://127\u30020\u30020\u30021/", "http://0/", "http://0x/", "http://[::ffff:7f00:1]/", "http://[::ffff:127.0.0.1]/",
		"http://[0:0:0:0:0:0:0:1]/", "http://127.0.0.1.", "http://127.00.0.1:8080",
	} {
		if p.Check(url) == nil {
			t.Errorf("%s is allowed", url)
		}
	}
	for _, url := range []string{"http://1.2.3.4.com/", "https://example.com", "http://127.0.0.1.com", "http://127.0.0.2", "http://x.0x7g", "http://0x7f000001.net"} {
		if err := p.Check(url); err != nil {
			t.Error(err)
		}
	}
	for _, url := range []string{"http://999.1.1.1/", "http://1.2.3.4.5/", "http://4294967296/", "http://256.1/", "http://08.1/", "http://1.2.3.x4.5", "http://0x1ffffffff"} {
		if _, err := policy.Host(url); err == nil && url != "http://1.2.3.x4.5" {
			t.Errorf("%s is an address", url)
		}
	}
}

// What a page makes itself is judged by the page.
func TestOpenedByAPage(t *testing.T) {
	t.Parallel()
	p, err := policy.New([]string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		url, opener string
		ok          bool
	}{
		{"data:text/html,hi", "https://example.com/x", true},
		{"DATA:text/html,hi", "https://evil.com", false},
		{"data:text/html,hi", "about:blank", true},
		{"data:text/html,hi", "", false},
		{"data:text/html,hi", "data:text/html,outer", false},
		{"data:text/html,hi", "blob:https://example.com/uuid", true},
		{"blob:https://example.com/uuid", "https://example.com", true},
		{"blob:https://evil.com/uuid", "https://example.com", false},
		{"blob:null/uuid", "https://example.com", true},
		{"blob:null/uuid", "https://evil.com", false},
		{"blob:data:x", "https://example.com", false},
		{"https://example.com", "https://evil.com", true},
		{"https://evil.com", "https://example.com", false},
		{"javascript:alert(1)", "https://example.com", false},
		{"file:///etc/passwd", "https://example.com", false},
		{"about:blank", "https://example.com", true},
		{"about:srcdoc", "https://example.com", true},
		{"filesystem:https://example.com/temporary/x", "https://example.com", false},
	} {
		if err := p.CheckOpened(row.url, row.opener); (err == nil) != row.ok {
			t.Errorf("%s of %s: %v", row.url, row.opener, err)
		}
	}
}

// An address that is allowed has one host, whose spelling does not change, and which the list names.
func FuzzAddresses(f *testing.F) {
	f.Add("https://example.com@evil.org/", "https://example.com")
	f.Add("http://0x7f.1:80/", "127.0.0.1")
	f.Add("http://[::ffff:1.2.3.4]/", "*.4")
	f.Add("https://m\u00fcnchen.de./", "*.de")
	f.Fuzz(func(t *testing.T, url, pattern string) {
		p, err := policy.New([]string{pattern}, nil)
		if err != nil || p.Check(url) != nil || strings.HasPrefix(url, "about:") || strings.HasPrefix(url, "ws") {
			return
		}
		host, err := policy.Host(url)
		if err != nil {
			t.Fatal(err)
		}
		written := host
		if strings.Contains(host, ":") {
			written = "[" + host + "]"
		}
		if again, err := policy.Host("http://" + written + "/"); err != nil || again != host {
			t.Fatalf("%q, then %q (%v)", host, again, err)
		}
		only, err := policy.New([]string{written}, nil)
		if err != nil || only.Check(url) != nil {
			t.Fatalf("%q does not allow itself: %v", written, err)
		}
		if denied, _ := policy.New(nil, []string{written}); denied.Check(url) == nil {
			t.Fatalf("%q does not deny itself", written)
		}
	})
}
