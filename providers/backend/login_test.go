package backend

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/provider"
)

// After a 401 a key is read once more, then made anew; another try is worth it only with another key.
func TestAnew(t *testing.T) {
	broken := errors.New("the program ended with status 1")
	for name, tt := range map[string]struct {
		kept, renewed string
		err           error
		again         bool
		asked         []bool // whether anew
	}{
		"another request has got one": {"new", "newer", nil, true, []bool{false}},
		"a new one is made":           {" old\n", "new\n", nil, true, []bool{false, true}},
		"there is no other":           {"old", "old\n", nil, false, []bool{false, true}},
		"its source fails":            {"old", "", broken, false, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var cfg Config
			if ds := configblock.Decode([]byte(`{"api_key": {"$secret": "h"}}`), &cfg); len(ds) > 0 {
				t.Fatal(ds)
			}
			var asked []bool
			configblock.Bind(&cfg, func(_ context.Context, _ string, renew bool) (string, error) {
				asked = append(asked, renew)
				if renew {
					return tt.renewed, tt.err
				}
				return tt.kept, nil
			})
			again, err := anew(cfg.APIKey)(t.Context(), []string{"old"})
			if again != tt.again || !errors.Is(err, tt.err) || !slices.Equal(asked, tt.asked) {
				t.Errorf("again %v, %v, asked %v", again, err, asked)
			}
		})
	}
}

// What is wrong in an oauth block is told at its line, before anybody logs in.
func TestOAuthBlock(t *testing.T) {
	for hcl, want := range map[string]string{
		`{"oauth": {"client_id": "c", "auth_url": "https://v.test/a", "token_url": "https://v.test/t"}}`:                                              "",
		`{"oauth": {"client_id": "c", "auth_url": "https://v.test/a", "token_url": "https://v.test/t"}, "api_key": "k"}`:                              "oauth: api_key and oauth exclude each other",
		`{"oauth": {"client_id": "c", "auth_url": "https://v.test/a", "token_url": "http://v.test/t"}}`:                                               "oauth.token_url: token_url must begin with https://",
		`{"oauth": {"client_id": "c", "auth_url": "https://v.test/a", "token_url": "https://v.test/t", "parameters": {"redirect_uri": "https://x"}}}`: "oauth.parameters: the parameter",
		`{"oauth": {"client_id": "c", "token_url": "https://v.test/t"}}`:                                                                              "oauth.auth_url: auth_url and device_url are missing",
	} {
		_, err := newTestService(t, Vendor{}, hcl)
		d, ok := errors.AsType[*contract.Diagnostic](err)
		if want == "" && err == nil {
			continue
		}
		place := []string{}
		if ok {
			for _, step := range d.Path {
				place = append(place, step.Name)
			}
		}
		if !ok || !strings.HasPrefix(strings.Join(place, ".")+": "+d.Summary, want) {
			t.Errorf("%s: %v at %v, want %q", hcl, err, place, want)
		}
	}
}

// A provider whose service takes keys says so when somebody wants to log in.
func TestLoginWithoutARegistration(t *testing.T) {
	pick := func(any, provider.Env) (Vendor, *Config, error) {
		return Vendor{Name: "Acme", KeyVariable: "ACME_API_KEY"}, &Config{}, nil
	}
	env := provider.Env{Host: &provider.Host{}, Logger: hclog.NewNullLogger()}
	for _, c := range []provider.Command{loginCommand(pick), logoutCommand(pick)} {
		_, err := c.Run(t.Context(), env, []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), `Acme uses a key: api_key = env("ACME_API_KEY")`) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if _, err := loginCommand(pick).Run(t.Context(), env, []byte("[")); err == nil {
		t.Error("took input that is no JSON")
	}
}
