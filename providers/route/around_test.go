package route

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What stands around the connections sees each try, and may answer in their place.
func TestAround(t *testing.T) {
	var seen []string
	around := func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
			return next.RoundTrip(r)
		})
	}
	h, _ := inTurn(failWith(503, "busy"), answerWith("x"))
	r := loopback(t, Config{Auth: Bearer(fixed("sk-1234")), Transport: Transport{Around: around}}, h)
	if err := r.Stream(t.Context(), request("m"), 2, func(llm.Event) error { return nil }); err != nil {
		t.Fatal(err)
	}
	client, err := Transport{Around: around}.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(r.base.String() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	want := []string{"POST /answer Bearer sk-1234", "POST /answer Bearer sk-1234", "GET /models "}
	if !slices.Equal(seen, want) {
		t.Errorf("it saw %q, want %q", seen, want)
	}
}

// It knows better than net/http what went wrong, and whether to try again.
func TestAnErrorFromAroundIsKept(t *testing.T) {
	tries := 0
	r := open(t, Config{BaseURL: "http://vendor.test", Transport: Transport{Around: func(http.RoundTripper) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) {
			tries++
			return nil, fmt.Errorf("while replaying: %w", &llm.Error{Code: llm.ErrInvalidRequest, Message: "no match", Next: "record anew"})
		})
	}}})
	err := r.Stream(t.Context(), request("m"), 5, func(llm.Event) error { return nil })
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != llm.ErrInvalidRequest || e.Message != "no match" || e.Next != "record anew" || tries != 1 {
		t.Errorf("after %d tries: %#v", tries, err)
	}
}
