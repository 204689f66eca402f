package e2e_test

import (
	"slices"
	"strings"
	"testing"
)

// A task goes on with the model of another block when the thread's has no quota left, and the conversation stays with its own.
func TestBrowserTaskFallback(t *testing.T) {
	t.Parallel()
	r := newBrowser(t, browsers[0], "[[step]]\nwhen = { system = \"You operate a web browser\" }\nerror = { code = \"quota-exceeded\", message = \"used up\", status = 429 }\n"+
		operates("Do it", `{"done":{"text":"It is done.","success":true}}`)+
		toolCall("c1", "browser_task", `task = "Do it", judge = false`)+done, "fallback_model = \"second\"")
	r.Config("model \"second\" {\n  provider = \"scripted\"\n  name = \"other\"\n}\n")
	r.OK(append(append([]string{"exec"}, reaching("workspace-write")...), "go")...)
	if out := r.Last().Outputs()["c1"]; !strings.Contains(out, "It is done.") || !strings.Contains(out, `The model failed, and "second" took over.`) {
		t.Errorf("%s", out)
	}
	var models []string
	for _, q := range r.Requests() {
		models = append(models, q.Request.Model)
	}
	if want := []string{"scripted", "scripted", "other", "scripted"}; !slices.Equal(models, want) {
		t.Errorf("asked were %q, not %q", models, want)
	}
	r.NothingLeft()
}
