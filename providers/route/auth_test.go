package route

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func missing(why string) Source {
	return func(context.Context) (string, error) { return "", errors.New(why) }
}

func TestAuth(t *testing.T) {
	tests := []struct {
		name string
		auth Auth
		want string // headers, sorted; or "!" and what the error says
	}{
		{"none", None(), "Authorization=stale"},
		{"bearer", Bearer(fixed("k")), "Authorization=Bearer k"},
		{"blanks around a key", Bearer(fixed(" k\n")), "Authorization=Bearer k"},
		{"header", Header("x-api-key", fixed("k")), "Authorization=stale X-Api-Key=k"},
		{"no key", Bearer(missing("no A")), "!no A"},
		{"empty key", Bearer(fixed("")), "!empty"},
		{"bad name", Header("a b", fixed("k")), "!a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &Outgoing{URL: &url.URL{Host: "h"}, Header: http.Header{"Authorization": {"stale"}}}
			err := tt.auth.Apply(t.Context(), o)
			if why, fails := strings.CutPrefix(tt.want, "!"); fails {
				if err == nil || !strings.Contains(err.Error(), why) {
					t.Errorf("error = %v, want %q", err, why)
				}
				return
			}
			var got strings.Builder
			_ = o.Header.Write(&got)
			want := strings.ReplaceAll(tt.want, "=", ": ")
			if flat := strings.TrimSpace(strings.ReplaceAll(got.String(), "\r\n", " ")); err != nil || flat != want {
				t.Errorf("%q, %v; want %q", flat, err, want)
			}
		})
	}
}

func TestAnAuthKeepsItsErrorsCode(t *testing.T) {
	down := &llm.Error{Code: llm.ErrTransport, Message: "the login server is down", Retryable: true, Next: "wait"}
	r := open(t, Config{BaseURL: "http://h", Auth: Bearer(func(context.Context) (string, error) { return "", down })})
	f := fault(t, r.Stream(t.Context(), request("m"), 3, (&told{}).emit))
	if f.Err.Code != llm.ErrTransport || !f.Err.Retryable || f.Err.Next != "wait" || f.Err.Message != "no key for the header Authorization (the login server is down)" {
		t.Errorf("%+v", f.Err)
	}
	if down.Message != "the login server is down" {
		t.Error("the error of the source was changed")
	}
}

func TestOneRecoveryAfterA401(t *testing.T) {
	step := func(done bool, err error) Step {
		return func(context.Context, []string) (bool, error) { return done, err }
	}
	refuse, ok := failWith(401, `{"error":{"message":"old key sk-old-1"}}`), answerWith("x")
	tests := []struct {
		name     string
		answers  []http.HandlerFunc
		attempts int
		step     Step // nil: none
		requests int
		steps    int
		want     string // of the error; empty: none
	}{
		{"a newer key", []http.HandlerFunc{refuse, ok}, 5, step(true, nil), 2, 1, ""},
		{"also when one try is allowed", []http.HandlerFunc{refuse, ok}, 1, step(true, nil), 2, 1, ""},
		{"it takes none of the other tries", []http.HandlerFunc{refuse, failWith(503, ""), ok}, 2, step(true, nil), 3, 1, ""},
		{"refused again", []http.HandlerFunc{refuse}, 5, step(true, nil), 2, 1, "old key <redacted>"},
		{"nothing newer", []http.HandlerFunc{refuse}, 5, step(false, nil), 1, 1, "old key <redacted>"},
		{"the step fails", []http.HandlerFunc{refuse}, 5, step(false, errors.New("token sk-old-1 is used up")), 1, 1, "renewing the key failed: token <redacted> is used up"},
		{"the step fails and knows what to do", []http.HandlerFunc{refuse}, 5, step(false, &llm.Error{Message: "gone", Next: "log in"}), 1, 1, "renewing the key failed: gone"},
		{"no step", []http.HandlerFunc{refuse}, 5, nil, 1, 0, "old key <redacted>"},
		{"403 is no matter of age", []http.HandlerFunc{failWith(403, `{"error":"no"}`)}, 5, step(true, nil), 1, 0, "no"},
		{"an error in a stream is no 401", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: {\"text\":\"a\"}\n\ndata: {\"error\":{\"code\":401,\"message\":\"old\"}}\n\n"))
		}}, 5, step(true, nil), 1, 0, "old"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps := 0
			key := Bearer(func(context.Context) (string, error) {
				if steps > 0 {
					return "sk-new-1", nil
				}
				return "sk-old-1", nil
			})
			auth := key
			if tt.step != nil {
				auth = WithRecovery(key, func(ctx context.Context, refused []string) (bool, error) {
					steps++
					if !slices.Equal(refused, []string{"sk-old-1"}) {
						t.Errorf("refused: %q", refused)
					}
					return tt.step(ctx, refused)
				})
			}
			h, requests := inTurn(tt.answers...)
			var got told
			err := loopback(t, Config{Auth: auth}, h).Stream(t.Context(), request("m"), tt.attempts, got.emit)
			if len(requests.all()) != tt.requests || steps != tt.steps {
				t.Errorf("%d requests, %d steps", len(requests.all()), steps)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q", err, tt.want)
			}
			got.inOrder(t, err)
			if n := len(requests.all()); n > 1 && (requests.all()[1].header.Get("Authorization") != "Bearer sk-new-1" || len(got.attempts()) != n-1) {
				t.Errorf("second request with %v, attempts %v", requests.all()[1].header, got.attempts())
			}
		})
	}
}
