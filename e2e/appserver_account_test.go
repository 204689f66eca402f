package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/providers/credential/credentialtest"
)

// answerOf starts a thread, and returns the text of the model's answer, or of the turn's error.
func answerOf(t *testing.T, c *rig.Client) string {
	t.Helper()
	thread := begin(t, c, map[string]any{})
	submit(t, c, thread, "hi")
	var p struct {
		Turn struct {
			Error *struct{ Message string }
			Items []struct{ Text string }
		}
	}
	if c.Notified("turn/completed").Into(t, &p); p.Turn.Error != nil {
		return p.Turn.Error.Message
	}
	return p.Turn.Items[0].Text
}

// loggedIn waits for the end of a login, and returns its error.
func loggedIn(t *testing.T, c *rig.Client) (err string) {
	t.Helper()
	var p struct {
		Success bool
		Error   *string
	}
	if c.Notified("account/login/completed").Into(t, &p); p.Success != (p.Error == nil) {
		t.Errorf("%+v", p)
	}
	if p.Error != nil {
		return *p.Error
	}
	return ""
}

// A key is stored in the vault, under the name that the provider's block reads. A provider that waited for it works at once.
func TestAppServerKey(t *testing.T) {
	t.Parallel()
	r := rig.New(t, idleScript)
	r.Env = append(r.Env, "GANTRY_KEYRING=off")
	model := vendors.Start(t, "openai-chat", vendors.Answer{Text: "Hello.", Forever: true})
	r.Config(fmt.Sprintf("default_model = \"real\"\nprovider \"p\" {\n  source   = \"builtin/compatible\"\n  base_url = \"%s/v1\"\n  api_key  = secret(\"mine\")\n}\n"+
		"model \"real\" {\n  provider = \"p\"\n  name     = \"own-model\"\n}\n", model.URL))
	c := r.AppServer()
	greet(t, c)
	account := func() string {
		t.Helper()
		var a struct {
			Account            *struct{ Type string }
			RequiresOpenaiAuth bool
		}
		if c.Call("account/read", map[string]any{}, &a); a.RequiresOpenaiAuth {
			t.Error("a login at OpenAI is required")
		}
		if a.Account == nil {
			return ""
		}
		return a.Account.Type
	}
	updated := func() string {
		t.Helper()
		var p struct{ AuthMode *string }
		if c.Notified("account/updated").Into(t, &p); p.AuthMode == nil {
			return ""
		}
		return *p.AuthMode
	}
	if got := account(); got != "" {
		t.Errorf("an account without a key: %s", got)
	}
	if got := answerOf(t, c); got == "Hello." {
		t.Error("the model answered without a key")
	}
	from := len(c.All)
	c.Call("account/login/start", map[string]any{"type": "apiKey", "apiKey": " " + vendors.Key + "\n"}, nil)
	if n := len(c.All) - from; n != 1 {
		t.Errorf("%d messages up to the response", n)
	}
	if err := loggedIn(t, c); err != "" {
		t.Error(err)
	}
	if got := updated(); got != "apikey" {
		t.Errorf("updated to %q", got)
	}
	if got := account(); got != "apiKey" {
		t.Errorf("the account is %q", got)
	}
	if got := answerOf(t, c); got != "Hello." {
		t.Errorf("with a key: %s", got)
	}
	if got := r.OK("secret", "list").Stdout; got != "mine\n" {
		t.Errorf("secrets: %q", got)
	}
	c.Call("account/logout", nil, nil)
	if got := updated(); got != "" {
		t.Errorf("updated to %q", got)
	}
	c.Call("account/logout", nil, nil) // again
	if got := account() + r.OK("secret", "list").Stdout; got != "" {
		t.Errorf("after the logout: %q", got)
	}
	for _, tc := range []struct {
		name   string
		params map[string]any
		code   int
		says   string
	}{
		{"an empty key", map[string]any{"type": "apiKey", "apiKey": " "}, -32602, "empty"},
		{"an unknown provider", map[string]any{"type": "apiKey", "apiKey": "x", "provider": "nope"}, -32600, "nope"},
		{"a provider without a secret", map[string]any{"type": "apiKey", "apiKey": "x", "provider": "scripted"}, -32600, `secret(\"scripted\")`},
		{"a browser login of codex", map[string]any{"type": "chatgpt"}, -32602, "chatgpt"},
		{"a login without a command", map[string]any{"type": "oauth", "provider": "scripted"}, 0, "gantry secret set"},
	} {
		m := c.Reply(c.Request("account/login/start", tc.params))
		b, err := json.Marshal(m.Error)
		if err != nil || m.Error == nil || tc.code != 0 && m.Error.Code != tc.code || !strings.Contains(strings.ReplaceAll(string(b), `\\\"`, `\"`), tc.says) {
			t.Errorf("%s: %s %s", tc.name, b, m.Result)
		}
	}
}

// A provider with OAuth logs in through its own command: the client opens the address, and the redirect comes to the host.
func TestAppServerLogin(t *testing.T) {
	t.Parallel()
	a := newAccount(t, credentialtest.Config{}, vendors.Answer{Text: "Hello.", Forever: true})
	c := a.AppServer()
	greet(t, c)
	var l struct{ Type, LoginID, AuthURL string }
	start := func() {
		t.Helper()
		if c.Call("account/login/start", map[string]any{"type": "oauth"}, &l); l.Type != "oauth" || l.LoginID == "" || !strings.Contains(l.AuthURL, "/authorize?") {
			t.Fatalf("%+v", l)
		}
	}
	var canceled struct{ Status string }
	start()
	if c.Call("account/login/cancel", map[string]any{"loginId": l.LoginID}, &canceled); canceled.Status != "canceled" {
		t.Errorf("%+v", canceled)
	}
	if err := loggedIn(t, c); err == "" {
		t.Error("a canceled login succeeded")
	}
	if c.Call("account/login/cancel", map[string]any{"loginId": l.LoginID}, &canceled); canceled.Status != "notFound" {
		t.Errorf("%+v", canceled)
	}
	start()
	res, err := http.Get(l.AuthURL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if page, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(page), "close this page") {
		t.Errorf("%s %v", page, err)
	}
	if err := loggedIn(t, c); err != "" {
		t.Error(err)
	}
	c.Notified("account/updated")
	if got := answerOf(t, c); got != "Hello." {
		t.Errorf("after the login: %s", got)
	}
	c.Call("account/logout", nil, nil)
	c.Notified("account/updated")
	c.Close()
	if got := a.Gantry("exec", "hi"); got.Code == 0 || !strings.Contains(got.Stderr, "not logged in") {
		t.Errorf("after the logout: %d %s", got.Code, got.Stderr)
	}
	a.NothingLeft()
}
