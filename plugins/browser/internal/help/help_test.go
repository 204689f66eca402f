package help

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Drag and drop", "shadow DOM", " pdf ", "cross-origin frames"} {
		if text, err := Text(name); err != nil || len(text) < 100 {
			t.Errorf("%q: %q, %v", name, text, err)
		}
	}
	for _, name := range []string{"", "../help", "topics/pdf", "nothing"} {
		if _, err := Text(name); err == nil || !strings.Contains(err.Error(), "the topics are connection, cookies,") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The texts are short, and name only actions that there are.
func TestTopics(t *testing.T) {
	t.Parallel()
	all := Topics()
	if len(all) != 16 {
		t.Errorf("%d topics", len(all))
	}
	tools := strings.Fields("browser_act browser_state browser_execute browser_observe browser_cancel browser_extract browser_record browser_status browser_recover browser_configure")
	arguments := strings.Fields("stop_loading new_tab tab_id full_page paper_format print_background user_agent")
	for _, name := range all {
		text, err := Text(name)
		if err != nil || strings.Count(text, "\n") > 7 || len(text) > 700 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		for _, word := range regexp.MustCompile(`\b[a-z]+_[a-z_]+\b`).FindAllString(text, -1) {
			if !slices.Contains(slices.Concat(action.Names(), tools, arguments), word) {
				t.Errorf("%s: there is no %s", name, word)
			}
		}
	}
}
