package e2e_test

import (
	"strings"
	"testing"
)

// doctor says whether the browser is there and starts, whether it can have its own sandbox, and whether there are fonts.
func TestBrowserIsExamined(t *testing.T) {
	t.Parallel()
	r := newBrowser(t, browsers[0], "")
	res := r.Gantry("doctor")
	for _, want := range []string{"✓ plugin browser: Chromium ", "(/", "✓ plugin browser: the system lets Chromium use its own sandbox", " plugin browser: there are "} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("no %q in\n%s%s", want, res.Stdout, res.Stderr)
		}
	}
	r = newBrowser(t, browsers[0], "", `sandbox = false`)
	if res := r.Gantry("browser", "doctor"); !strings.Contains(res.Stdout, "Chromium's own sandbox is off") {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
}
