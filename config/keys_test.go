package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
)

func loadKeyed(t *testing.T, hcl string, env map[string]string) (*config.Config, error) {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "gantry.hcl"), []byte(hcl), 0o600); err != nil {
		t.Fatal(err)
	}
	c, ds := config.Load(t.Context(), config.Options{Home: home, Dir: t.TempDir(), System: "-", LookupEnv: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
	return c, ds.Err()
}

// A key in the environment is a provider, unless a file says anything about that provider.
func TestProvidersOfKeys(t *testing.T) {
	for _, tc := range []struct {
		name, hcl string
		env       map[string]string
		source    string // of provider "anthropic"; empty: there is none
	}{
		{"a key", "", map[string]string{"ANTHROPIC_API_KEY": "k"}, "builtin/anthropic"},
		{"none", "", nil, ""},
		{"an empty one", "", map[string]string{"ANTHROPIC_API_KEY": " "}, ""},
		{"another vendor's", "", map[string]string{"OPENAI_API_KEY": "k"}, ""},
		{"a block of the user's", `provider "anthropic" { source = "./mine" }`, map[string]string{"ANTHROPIC_API_KEY": "k"}, "./mine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := loadKeyed(t, tc.hcl, tc.env)
			if err != nil {
				t.Fatal(err)
			}
			m, err := c.Find("anthropic/m")
			if tc.source == "" {
				f, ok := errors.AsType[diag.Failure](err)
				if !ok || !strings.HasPrefix(f.Diagnostics[0].Next, "set ANTHROPIC_API_KEY in the environment") {
					t.Errorf("%+v, %v", m, err)
				}
				return
			}
			p, _ := c.Provider("anthropic")
			if err != nil || m.Name != "m" || p.Source != tc.source {
				t.Errorf("%+v, %v", m, err)
			}
			if def, _ := c.Model("default"); def.Provider != "scripted" {
				t.Errorf("the default model is of %q", def.Provider)
			}
		})
	}
}

// What init writes is valid, and is used.
func TestStarted(t *testing.T) {
	for _, v := range config.Vendors() {
		if v.Model == "" {
			continue
		}
		c, err := loadKeyed(t, config.Started(v.Block(), v.Label, v.Model), map[string]string{v.Variable: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := c.Model("default"); !ok || m.Provider != v.Label || m.Name != v.Model {
			t.Errorf("%s: %+v", v.Label, m)
		}
	}
	if v, ok := config.Keyed(func(name string) (string, bool) { return "k", name == "OPENAI_API_KEY" }); !ok || v.Label != "openai" {
		t.Errorf("%+v", v)
	}
}
