package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// swapped is one thread that goes from vendor to vendor by edits of gantry.hcl.
type swapped struct {
	*rig.Rig
	conf string // path
	base string // what it holds without a provider
}

func newSwapped(t *testing.T) *swapped {
	t.Helper()
	s := &swapped{Rig: rig.New(t, "")}
	s.conf = filepath.Join(s.Home, "gantry.hcl")
	b, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	s.base = string(b)
	return s
}

// to makes a vendor the one behind the labels that the thread was begun with.
func (s *swapped) to(vendor, url string) {
	s.Write(s.conf, s.base)
	useVendor(s.Rig, vendor, url)
}

// thought is what a vendor's model thinks in one of its answers. No two thoughts are the same.
func thought(vendor string, n int) string { return fmt.Sprintf("%s ponders matter %d.", vendor, n) }

// TestVendorSwap: a thread begins with one vendor, goes on with another and comes back. Both take the history; what the other
// one thought stays at home, what one thought oneself is there again.
func TestVendorSwap(t *testing.T) {
	t.Parallel()
	for from := range vendorBlocks {
		for to := range vendorBlocks {
			if from == to {
				continue
			}
			t.Run(from+"/"+to, func(t *testing.T) {
				t.Parallel()
				r := newSwapped(t)
				r.Write("dot.png", dot(t))
				look := vendors.Call{Name: "view_image", Args: map[string]any{"path": "dot.png"}}
				a := vendors.Start(t, from,
					vendors.Answer{Reasoning: thought(from, 1), Text: "Let me look.", Calls: []vendors.Call{note("a"), note("b")}},
					vendors.Answer{Reasoning: thought(from, 2), Calls: []vendors.Call{look}},
					vendors.Answer{Reasoning: thought(from, 3), Text: "The first is done."},
					vendors.Answer{Reasoning: thought(from, 4), Text: "The third is done."},
				)
				b := vendors.Start(t, to,
					vendors.Answer{Reasoning: thought(to, 1), Calls: []vendors.Call{note("c"), note("d")}},
					vendors.Answer{Reasoning: thought(to, 2), Text: "The second is done."},
				)
				for i, run := range []struct {
					vendor, url, prompt string
					resume              bool
				}{{from, a.URL, "first task", false}, {to, b.URL, "second task", true}, {from, a.URL, "third task", true}} {
					r.to(run.vendor, run.url)
					args := []string{"exec", "-i", "dot.png", run.prompt}
					if run.resume {
						args = []string{"resume", "--last", run.prompt}
					}
					res := r.Gantry(args...)
					if said := []string{"The first is done.", "The second is done.", "The third is done."}[i]; res.Code != 0 || !strings.Contains(res.Stdout, said) {
						t.Fatalf("run %d with %s: exit %d\n%s\n%s", i+1, run.vendor, res.Code, res.Stdout, res.Stderr)
					}
				}
				pictures := 2 // the user's and the tool's
				if vendorBlocks[from].blind {
					pictures = 1
				}
				conversation(t, to, b.Requests()[0], pictures, "first task", "Let me look.", "did a", "did b", "The first is done.", "second task")
				requests := a.Requests()
				last := requests[len(requests)-1]
				conversation(t, from, last, pictures, "first task", "Let me look.", "did a", "did b", "The first is done.", "second task", "did c", "did d",
					"The second is done.", "third task")
				foreign(t, to, b.Requests(), from)
				foreign(t, from, requests, to)
				returned(t, from, last)
			})
		}
	}
}

// conversation checks that a request holds all that was said, each once and in order, and the pictures where the vendor
// takes any.
func conversation(t *testing.T, vendor string, r *vendors.Request, pictures int, said ...string) {
	t.Helper()
	raw := string(r.Raw)
	at := 0
	for _, s := range said {
		if n := strings.Count(raw, s); n != 1 && !strings.HasPrefix(s, "did ") {
			t.Errorf("%s gets %q %d times", vendor, s, n)
		}
		i := strings.Index(raw[at:], s)
		if i < 0 {
			t.Fatalf("%s does not get %q in its place:\n%s", vendor, s, raw)
		}
		at += i
	}
	if vendorBlocks[vendor].blind {
		pictures = 0
	}
	if n := strings.Count(raw, "iVBORw0KGgo"); n != pictures {
		t.Errorf("%s gets %d pictures, want %d", vendor, n, pictures)
	}
}

// foreign checks that nothing that one vendor's model thought is told to another one, neither in words nor sealed.
func foreign(t *testing.T, vendor string, requests []*vendors.Request, of string) {
	t.Helper()
	for i, r := range requests {
		for _, secret := range []string{of + " ponders", vendors.Seal(of)} {
			if secret != "" && strings.Contains(string(r.Raw), secret) {
				t.Errorf("%s is told %q in request %d, which is %s's:\n%s", vendor, secret, i+1, of, r.Raw)
			}
		}
	}
}

// returned checks that a vendor that wants its model's thoughts back gets them: its service refuses what lacks, so here is
// what it would let pass.
func returned(t *testing.T, vendor string, r *vendors.Request) {
	t.Helper()
	want := map[string][]int{
		"openai-responses": {1, 2, 3}, "anthropic": {1, 2, 3}, "deepseek": {1, 2, 3}, "ollama": {1, 2, 3}, "bedrock": {1, 2, 3},
	}
	for _, n := range want[vendor] {
		if !strings.Contains(string(r.Raw), thought(vendor, n)) {
			t.Errorf("%s does not get back %q:\n%s", vendor, thought(vendor, n), r.Raw)
		}
	}
}
