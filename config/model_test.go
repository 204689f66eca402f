package config_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
)

const models = `
provider "openai" {
  source = "builtin/openai"
}
provider "off" {
  source  = "builtin/openai"
  enabled = false
}
model "main" {
  provider     = "openai"
  name         = "gpt-5.4"
  fallback     = ["spare"]
  hosted_tools = ["web_search"]
}
model "spare" {
  provider = "openai"
  name     = "gpt-5.4-mini"
}
budget {
  tokens      = 1000000
  usd         = 2.5
  turn_tokens = 0
  turn_usd    = 0.75
}
`

// A user names a model by the label of its block, or without one by its provider.
func TestFindModel(t *testing.T) {
	c := mustLoad(t, options(write(t, map[string]string{"home/gantry.hcl": models})))
	for _, tc := range []struct{ name, provider, model, err string }{
		{"main", "openai", "gpt-5.4", ""},
		{"openai/gpt-5.4", "openai", "gpt-5.4", ""},
		{"openai/acme/gpt", "openai", "acme/gpt", ""},
		{"mian", "", "", `there is no model "mian"`},
		{"", "", "", "no model is selected"},
		{"opnai/gpt-5.4", "", "", `there is no provider "opnai"`},
		{"openai/", "", "", `there is no model "openai/"`},
		{"/gpt", "", "", `there is no provider ""`},
		{"off/gpt", "", "", `provider "off" is disabled`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := c.Find(tc.name)
			if err != nil {
				if tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %q, want %q", err, tc.err)
				}
				return
			}
			if tc.err != "" || m.Label != tc.name || m.Provider != tc.provider || m.Name != tc.model {
				t.Errorf("model %+v, want %s of %s or the error %q", m, tc.model, tc.provider, tc.err)
			}
		})
	}
	m, err := c.Find("main")
	if err != nil {
		t.Fatal(err)
	}
	if len(m.HostedTools) != 1 || m.HostedTools[0].Kind != "web_search" || !strings.HasSuffix(m.HostedTools[0].Range.String(), "gantry.hcl:13") {
		t.Errorf("hosted tools %+v", m.HostedTools)
	}
	if want := (config.Budget{Tokens: 1_000_000, USD: 2.5, TurnUSD: 0.75}); c.Budget != want {
		t.Errorf("budget %+v, want %+v", c.Budget, want)
	}
}

// A budget also comes from the command line, and one that makes no sense has its place.
func TestBudget(t *testing.T) {
	root := write(t, map[string]string{"home/gantry.hcl": models})
	o := options(root)
	o.Sets = []string{"budget.usd=0.5", "budget.turn_tokens=20"}
	if got, want := mustLoad(t, o).Budget, (config.Budget{Tokens: 1_000_000, USD: 0.5, TurnTokens: 20, TurnUSD: 0.75}); got != want {
		t.Errorf("budget %+v, want %+v", got, want)
	}
	for set, says := range map[string]string{
		"budget.usd=-1": `invalid value for "usd"`, "budget.tokens=1.5": `invalid value for "tokens"`, "budget.usd=much": "a number, for example 2.5",
		"budget.usd=1e999": `invalid value for "usd"`, "budget.token=1": `did you mean "tokens"`, `model.main.hosted_tools=[""]`: "A name is empty",
	} {
		o.Sets = []string{set}
		c, ds := config.Load(t.Context(), o)
		if c != nil || len(ds) != 1 || !strings.Contains(ds[0].Summary+ds[0].Detail+ds[0].Next, says) {
			t.Errorf("%s: %+v, want %q", set, ds, says)
		}
	}
}
