//go:build unix

package action_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/policy"
)

// What is judged is the host that the browser connects to, however an address is written.
func TestHostsAreThoseOfTheBrowser(t *testing.T) {
	x := newRig(t)
	addresses := []string{
		"https://example.com", "https://EXAMPLE.com./a", "https://user:pw@example.com:8443/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1", "http://127.1", "http://0", "http://0x",
		"http://127%2e0%2e0%2e1/", "http://\uff11\uff12\uff17.0.0.1/", "http://127\u30020\u30020\u30021/", "http://[::ffff:7f00:1]/", "http://[0:0::1]/", "http://1.2.3.4.com", "http://m\u00fcnchen.de",
		"http://fa\u00df.de", "http://\u0435xample.com", "http://ex%41mple.com", "http://a_b.example", "http://xn--mnchen-3ya.de", "http://example.com:080/", "http://127.0.0.1.", "http://999.1.1.1", "http://1.2.3.4.5",
		"http://08.1", "http://a..b", "http://exa mple.com", "http://a%00b", "http://a%2fb", "http://[::1%25eth0]", "http://xn--", "http://\u00ad", "http://example.com\\@evil.org", "http://\u2100.com", "http://a\u200db.com", "http://1.0x",
	}
	list, err := json.Marshal(addresses)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	if err := json.Unmarshal([]byte(x.eval(fmt.Sprintf("%s.map(a => { try { return new URL(a).hostname } catch { return '' } })", list))), &hosts); err != nil {
		t.Fatal(err)
	}
	valid := 0
	for i, a := range addresses {
		ours, err := policy.Host(a)
		if err != nil {
			continue // refused
		}
		valid++
		theirs, err := policy.Host("http://" + hosts[i] + "/")
		if err != nil || ours != theirs {
			t.Errorf("%q: judged is %q, the browser connects to %q (%v)", a, ours, hosts[i], err)
		}
	}
	if valid < 20 {
		t.Errorf("only %d addresses are valid", valid)
	}
}
