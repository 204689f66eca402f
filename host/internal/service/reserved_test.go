package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/gantry-agent/gantry/host/internal/approval"
	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// open returns what a browser gets at an address; 0: nothing listens there.
func open(t *testing.T, address string) (status int, text string) {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(b)
}

// login is a URL that leads to an address.
func login(uri, state string) string {
	return "https://vendor.example/login?" + url.Values{"redirect_uri": {uri}, "state": {state}}.Encode()
}

// An address that is reserved in a command accepts one query, after the URL that leads to it was asked about and with its state, and is
// released then. Only the plugin and the command that have reserved it can wait for it.
func TestReservedRedirect(t *testing.T) {
	w := newWorld(t)
	mine, other := w.client("mine"), w.client("other")
	reply := make(chan approval.Answer, 1)
	asked := make(chan string, 1)
	token, end := w.commands.Begin(t.Context(), "mine", asker(func(q approval.Question) (approval.Answer, error) {
		asked <- q.URL
		return <-reply, nil
	}), false)
	defer end()
	second, endSecond := w.commands.Begin(t.Context(), "mine", nil, false)
	defer endSecond()
	r, err := mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token})
	if err != nil {
		t.Fatal(err)
	}
	uri := r.GetRedirectUri()
	if !strings.HasPrefix(uri, "http://127.0.0.1:") || !strings.HasSuffix(uri, "/callback/"+r.GetId()) || len(r.GetId()) < 20 {
		t.Errorf("reserved %v", r)
	}
	if code, _ := open(t, uri+"?code=1&state=s"); code != http.StatusConflict {
		t.Errorf("before the question: %d", code)
	}
	ask := func(c gantryv1.HostServiceClient, token string) (*gantryv1.AskResponse, error) {
		return c.Ask(t.Context(), &gantryv1.AskRequest{CallToken: token, Kind: gantryv1.AskKind_ASK_KIND_URL, Url: login(uri, "s"), RedirectId: r.GetId()})
	}
	if _, err := ask(mine, second); code(err) != codes.PermissionDenied {
		t.Errorf("another command: %v", err)
	}
	foreign, endForeign := w.commands.Begin(t.Context(), "other", nil, false)
	defer endForeign()
	if _, err := ask(other, foreign); code(err) != codes.PermissionDenied {
		t.Errorf("another plugin: %v", err)
	}
	answered := make(chan *gantryv1.AskResponse, 1)
	go func() { // owned by the test: received below
		resp, err := ask(mine, token)
		if err != nil {
			t.Error(err)
		}
		answered <- resp
	}()
	if got := <-asked; got != login(uri, "s") {
		t.Errorf("asked about %s", got)
	}
	if _, err := ask(mine, token); code(err) != codes.FailedPrecondition {
		t.Errorf("a second question: %v", err)
	}
	reply <- approval.Answer{Choice: approval.Approve}
	for query, want := range map[string]int{"": http.StatusBadRequest, "?code=1": http.StatusBadRequest, "?code=1&state=t": http.StatusBadRequest} {
		if code, _ := open(t, uri+query); code != want {
			t.Errorf("the query %q: %d", query, code)
		}
	}
	if code, _ := open(t, strings.TrimSuffix(uri, r.GetId())+"x?code=1&state=s"); code != http.StatusNotFound {
		t.Errorf("another path: %d", code)
	}
	if code, _ := open(t, strings.Replace(uri, "127.0.0.1", "localhost", 1)+"?code=1&state=s"); code != http.StatusNotFound && code != 0 {
		t.Errorf("another host: %d", code)
	}
	if code, text := open(t, uri+"?code=1&state=s"); code != http.StatusOK {
		t.Errorf("the query: %d, %s", code, text)
	}
	var back struct {
		RedirectURI string            `json:"redirect_uri"`
		Query       map[string]string `json:"query"`
	}
	if err := json.Unmarshal((<-answered).GetAnswerJson(), &back); err != nil || back.RedirectURI != uri || back.Query["code"] != "1" {
		t.Errorf("answer %+v, %v", back, err)
	}
	if code, _ := open(t, uri+"?code=2&state=s"); code != 0 {
		t.Errorf("after the answer: %d", code)
	}
	if _, err := ask(mine, token); code(err) != codes.PermissionDenied {
		t.Errorf("a question after the answer: %v", err)
	}
}

// An address ends with the call or command that has reserved it.
func TestReservedRedirectEnds(t *testing.T) {
	w := newWorld(t)
	mine := w.client("mine")
	uri := ""
	w.call(t.Context(), func(ctx context.Context, s contract.CallStart) {
		r, err := mine.Redirect(ctx, &gantryv1.RedirectRequest{CallToken: s.CallToken})
		if err != nil {
			t.Error(err)
		}
		uri = r.GetRedirectUri()
		if code, _ := open(t, uri); code != http.StatusConflict {
			t.Errorf("within the call: %d", code)
		}
	})
	if code, _ := open(t, uri); code != 0 {
		t.Errorf("after the call: %d", code)
	}
	token, end := w.commands.Begin(t.Context(), "mine", nil, false)
	r, err := mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token, Host: "localhost", Path: "/mine/a-b"})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(r.GetRedirectUri())
	if err != nil || u.Hostname() != "localhost" || u.Path != "/mine/a-b" {
		t.Errorf("reserved %v, %v", r, err)
	}
	// A registered address has a port. While the first one is there, no other program and no other address can have it.
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	_, err = mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token, Port: int32(port)})
	if err == nil || !strings.Contains(err.Error(), "listen for the browser's redirect") || !strings.Contains(err.Error(), "another port") {
		t.Errorf("a port that is taken: %v", err)
	}
	if ln, err := net.Listen("tcp6", net.JoinHostPort("::1", u.Port())); err == nil {
		ln.Close()
		t.Error("another program can listen on localhost")
	}
	for _, bad := range []*gantryv1.RedirectRequest{
		{Port: -1}, {Port: 65536}, {Host: "0.0.0.0"}, {Host: "evil.example"}, {Path: "/"}, {Path: "x"}, {Path: "/a/../b"}, {Path: "/a//b"},
		{Path: "/a/"}, {Path: "/{x}"}, {Path: "/a b"}, {Path: "/" + strings.Repeat("x", 300)},
	} {
		bad.CallToken = token
		if _, err := mine.Redirect(t.Context(), bad); code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	for range 15 {
		if _, err := mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token}); code(err) != codes.ResourceExhausted {
		t.Errorf("too many: %v", err)
	}
	end()
	if code, _ := open(t, r.GetRedirectUri()); code != 0 {
		t.Errorf("after the command: %d", code)
	}
	if _, err := mine.Redirect(t.Context(), &gantryv1.RedirectRequest{CallToken: token}); code(err) != codes.PermissionDenied {
		t.Errorf("after the command: %v", err)
	}
}
