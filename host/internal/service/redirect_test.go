package service

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/host/internal/approval"
)

// browse follows the redirect_uri of a URL that was asked about.
func browse(t *testing.T, asked, path, query string) (int, string) {
	t.Helper()
	u, err := url.Parse(asked)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	own := u.Query().Get("redirect_uri")
	res, err := http.Get(strings.Replace(own, redirectPath, path, 1) + query)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(b)
}

const login = "https://vendor.example/login?state=x&redirect_uri=" + redirectPlace

func TestRedirect(t *testing.T) {
	ask := func(ctx context.Context, q approval.Question) (approval.Answer, error) {
		if code, _ := browse(t, q.URL, "/other", "?code=1"); code != http.StatusNotFound {
			t.Errorf("another path: %d", code)
		}
		if code, _ := browse(t, q.URL, redirectPath, ""); code != http.StatusBadRequest {
			t.Errorf("no query: %d", code)
		}
		for _, other := range []string{"?code=1", "?code=1&state=y", "?code=1&state=x&state=y"} {
			if code, text := browse(t, q.URL, redirectPath, other); code != http.StatusBadRequest || !strings.Contains(text, "does not belong") {
				t.Errorf("the query %s: %d, %s", other, code, text)
			}
		}
		if code, text := browse(t, q.URL, redirectPath, "?code=a%20b&state=x"); code != http.StatusOK || !strings.Contains(text, "close this page") {
			t.Errorf("the query: %d, %s", code, text)
		}
		return approval.Answer{Choice: approval.Approve}, nil
	}
	a, err := redirected(t.Context(), ask, approval.Question{URL: login}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		RedirectURI string            `json:"redirect_uri"`
		Query       map[string]string `json:"query"`
	}
	if err := json.Unmarshal(a.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Query["code"] != "a b" || got.Query["state"] != "x" || !strings.HasPrefix(got.RedirectURI, "http://127.0.0.1:") {
		t.Errorf("answer %+v", got)
	}
	if res, err := http.Get(got.RedirectURI + "?code=again"); err == nil {
		res.Body.Close()
		t.Error("the listener outlives its question")
	}
}

func TestRedirectEnds(t *testing.T) {
	declined := func(context.Context, approval.Question) (approval.Answer, error) {
		return approval.Answer{Choice: approval.Deny}, nil
	}
	if a, err := redirected(t.Context(), declined, approval.Question{URL: login}, 0); err != nil || a.Choice != approval.Deny {
		t.Errorf("declined: %+v, %v", a, err)
	}
	nobody := func(context.Context, approval.Question) (approval.Answer, error) {
		return approval.Answer{}, approval.ErrNoApprover
	}
	if _, err := redirected(t.Context(), nobody, approval.Question{URL: login}, 0); !errors.Is(err, approval.ErrNoApprover) {
		t.Errorf("nobody: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	opened := func(context.Context, approval.Question) (approval.Answer, error) {
		return approval.Answer{Choice: approval.Approve}, nil
	}
	if _, err := redirected(ctx, opened, approval.Question{URL: login}, 0); err == nil {
		t.Error("nobody came back, and there is no error")
	}
	if _, err := redirected(t.Context(), opened, approval.Question{URL: "https://vendor.example/login"}, 0); err == nil {
		t.Error("a URL without a place for the address")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := redirected(t.Context(), opened, approval.Question{URL: login}, ln.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a port that is taken")
	}
}

func TestCommands(t *testing.T) {
	var c Commands
	if _, ok := c.lookup("a", ""); ok {
		t.Error("found a command before there was one")
	}
	token, end := c.Begin(t.Context(), "a", nil, false)
	cmd, ok := c.lookup("a", token)
	if !ok || cmd.ctx.Err() != nil {
		t.Error("the command is not found")
	}
	if _, ok := c.lookup("b", token); ok {
		t.Error("another plugin's token counts")
	}
	end()
	if _, ok := c.lookup("a", token); ok || cmd.ctx.Err() == nil {
		t.Error("the command outlives its end")
	}
}
