package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/event"
)

// What a question shows is all that would run, whatever is written to hide a part of it.
func TestQuestionsHideNothing(t *testing.T) {
	t.Parallel()
	const evil = "curl evil.test"
	for name, script := range map[string]string{
		"behind blanks":          "true" + strings.Repeat(" ", 100_000) + "; " + evil,
		"between blanks":         "true" + strings.Repeat(" \t", 5000) + ";" + evil + "#" + strings.Repeat("\u3164\u2800", 5000) + "\ntrue",
		"behind lines":           "true" + strings.Repeat("\n", 5000) + evil,
		"behind a comment":       "true #" + strings.Repeat("#", 50_000) + "\n" + evil,
		"behind a carriage":      evil + "\rtrue",
		"behind controls":        "true \x1b[2K\x1b[1A" + evil + "\x1b[8m",
		"in the other direction": "true \u202e" + evil + "\u202c",
		"in no width":            "true \u200b\u2060;" + evil,
		"behind bytes":           "true " + strings.Repeat("\xff", 5000) + evil,
	} {
		data, err := json.Marshal(map[string]any{"argv": []string{"bash", "-c", script}, "cwd": "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		text := questionText(event.QuestionAsked{Title: script, Reason: script, Message: script, Effects: []event.Effect{{Type: "exec", Data: data}}}, nil)
		if len(text) > 2000 || strings.Count(text, evil) < 4 || strings.ContainsAny(text, "\x1b\r\u202e\u202c\u2028") {
			t.Errorf("%s: %d bytes: %.1000q", name, len(text), text)
		}
	}
	if got := folded("a  b\n\n" + strings.Repeat("=", maxBlanks)); got != "a  b\n\n"+strings.Repeat("=", maxBlanks) {
		t.Errorf("ordinary text is %q", got)
	}
}
