package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// TestCatalogueIsRefreshed: what was fetched counts from then on; what could not be fetched leaves things as they were.
func TestCatalogueIsRefreshed(t *testing.T) {
	t.Parallel()
	catalogue := `{"openai": {"id": "openai", "name": "OpenAI", "models": {"gpt-99": {"id": "gpt-99", "name": "GPT-99", "tool_call": true,
		"modalities": {"input": ["text"], "output": ["text"]}, "limit": {"context": 9000000, "output": 9000}, "cost": {"input": 7, "output": 8}}}}}`
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api.json" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, catalogue)
	}))
	t.Cleanup(h.Close)
	r := rig.New(t, "[[step]]\ndo = [{ text = \"hm\" }]\n")
	r.Config(`
provider "openai" {
  source = "builtin/openai"
}

provider "own" {
  source   = "builtin/compatible"
  base_url = "https://models.example.com/v1"
}
`)
	models := func(args ...string) rig.Result { return r.OK(append([]string{"models"}, args...)...) }
	if res := models("openai"); strings.Contains(res.Stdout, "gpt-99") || !strings.Contains(res.Stdout, "gpt-5.4 ") {
		t.Errorf("the built-in catalogue:\n%s", res.Stdout)
	}
	if res := r.Gantry("models", "--refresh-from", h.URL+"/nowhere", "openai"); res.Code != 1 || !strings.Contains(res.Stderr, "answered 404") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
	if res := models("openai"); !strings.Contains(res.Stdout, "gpt-5.4 ") {
		t.Errorf("after a fetch that failed:\n%s", res.Stdout)
	}
	res := models("--refresh-from", h.URL+"/api.json")
	for _, want := range []string{"openai: models of OpenAI in the catalogue: 1", "own: own is not in the published catalogue"} {
		if !strings.Contains(res.Stderr, want) {
			t.Errorf("%q is missing:\n%s", want, res.Stderr)
		}
	}
	for _, res := range []rig.Result{res, models("openai")} {
		if !strings.Contains(res.Stdout, "gpt-99") || !strings.Contains(res.Stdout, "9M") || strings.Contains(res.Stdout, "gpt-5.4 ") {
			t.Errorf("the catalogue that was fetched does not count:\n%s", res.Stdout)
		}
	}
	r.NothingLeft()
}

// A missing key is no reason not to know what there is, except where the service itself says so.
func TestModelsAreListedWithoutTheKey(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-right-0123456789" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"own-model","max_model_len":4096}]}`)
	}))
	t.Cleanup(h.Close)
	r := rig.New(t, "")
	r.Config(fmt.Sprintf(`
provider "openai" {
  source  = "builtin/openai"
  api_key = env("NOBODY_SETS_THIS")
}

provider "own" {
  source   = "builtin/compatible"
  base_url = "%s/v1"
  api_key  = env("OWN_KEY")
}
`, h.URL))
	res := r.OK("models", "openai")
	if !strings.Contains(res.Stdout, "gpt-5.4 ") || !strings.Contains(res.Stderr, `Note: provider "openai": `) || !strings.Contains(res.Stderr, "NOBODY_SETS_THIS") {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
	if res := r.OK("models", "--json", "openai"); !strings.Contains(res.Stdout, `"maxContextWindow": `) || !strings.Contains(res.Stdout, `"contextWindowSource": "catalog"`) {
		t.Errorf("--json prints\n%.2000s", res.Stdout)
	}
	if res := r.Gantry("models", "own"); res.Code != 1 || !strings.Contains(res.Stderr, "OWN_KEY") || !strings.Contains(res.Stderr, "401") {
		t.Errorf("exit %d\n%s", res.Code, res.Stderr)
	}
	r.Env = append(r.Env, "OWN_KEY=sk-right-0123456789")
	if res := r.OK("models", "own"); !strings.Contains(res.Stdout, "own-model") || strings.Contains(res.Stderr, "Note") {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
	if res := r.Gantry("exec", "-m", "openai/gpt-5.4", "hi"); res.Code != 1 || !strings.Contains(res.Stdout+res.Stderr, "NOBODY_SETS_THIS") {
		t.Errorf("without its key the model is asked: exit %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
}
