package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// An answer that the vendor pauses does not end the turn: it goes back as the last message, with nothing said in between, as
// often as it is paused, and also when the answer to it broke off.
func TestVendorPausesAnAnswer(t *testing.T) {
	t.Parallel()
	s := vendors.Start(t, "anthropic",
		vendors.Answer{Text: "I look further.", Stop: vendors.Paused},
		vendors.Answer{Fail: 529},
		vendors.Answer{Text: "And further.", Stop: vendors.Paused},
		vendors.Answer{Text: "Found it."})
	r := rig.New(t, "")
	useVendor(r, "anthropic", s.URL)
	if res := r.OK("exec", "look"); strings.TrimSpace(res.Stdout) != "Found it." {
		t.Errorf("the answer is %q", res.Stdout)
	}
	var ends []string
	for _, q := range s.Requests() {
		messages := q.Body["messages"].([]any)
		last := messages[len(messages)-1].(map[string]any)
		said := ""
		for _, b := range last["content"].([]any) {
			said += fmt.Sprint(b.(map[string]any)["text"], " ")
		}
		ends = append(ends, fmt.Sprintf("%v: %s", last["role"], strings.TrimSpace(said)))
		if strings.Contains(string(q.Raw), "Continue.") {
			t.Errorf("the vendor was told to continue:\n%s", q.Raw)
		}
	}
	want := []string{"assistant: I look further.", "assistant: I look further.", "assistant: I look further. And further."}
	if len(ends) != 4 || !strings.HasSuffix(ends[0], "look") || fmt.Sprint(ends[1:]) != fmt.Sprint(want) {
		t.Errorf("the requests end with\n%s", strings.Join(ends, "\n"))
	}
}
