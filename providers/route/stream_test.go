package route

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestAnAnswer(t *testing.T) {
	var got told
	err := loopback(t, Config{}, answerWith("Hel", "lo")).Stream(t.Context(), request("m"), 5, got.emit)
	got.inOrder(t, err)
	if err != nil || got.text() != "Hello" || len(got.attempts()) != 0 {
		t.Errorf("%v, %v", got.events, err)
	}
}

// TestTriesBeforeTheFirstByte has what a vendor answers in turn, and how often and with which delays it is asked.
func TestTriesBeforeTheFirstByte(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	headThenCut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", "100")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	headThenEnd := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }
	ok := answerWith("x")
	all := func(h ...http.HandlerFunc) []http.HandlerFunc { return h }
	tests := []struct {
		name     string
		answers  []http.HandlerFunc
		attempts int
		delays   []int64 // in ms, of the announced tries
		code     llm.ErrorCode
		want     string // of the error; empty: none
		retry    bool   // whether the turn may ask again
	}{
		{"500 three times", all(failWith(500, ""), failWith(500, ""), failWith(500, ""), ok), 5, []int64{200, 400, 800}, 0, "", false},
		{"503 for ever", all(failWith(503, `{"error":"busy"}`)), 4, []int64{200, 400, 800}, llm.ErrProviderInternal, "busy", true},
		{"one try", all(failWith(503, "")), 1, nil, llm.ErrProviderInternal, "503", true},
		{"the host says nothing", all(failWith(500, "")), 0, []int64{200, 400, 800, 1600}, llm.ErrProviderInternal, "500", true},
		{"408 and 409", all(failWith(408, ""), failWith(409, ""), ok), 5, []int64{200, 400}, 0, "", false},
		{"overloaded", all(failWith(529, `{"error":{"type":"overloaded_error"}}`), ok), 5, []int64{200}, 0, "", false},
		{"retry-after", all(failWith(500, "", "Retry-After", "2"), ok), 5, []int64{2000}, 0, "", false},
		{"retry-after-ms first", all(failWith(429, "", "Retry-After", "9", "Retry-After-Ms", "250"), ok), 5, []int64{250}, 0, "", false},
		{"retry-after in the past", all(failWith(429, "", "Retry-After", "-3"), ok), 5, []int64{0}, 0, "", false},
		{"retry-after that says nothing", all(failWith(429, "", "Retry-After", "abc"), ok), 5, []int64{200}, 0, "", false},
		{"429 without a header", all(failWith(429, ""), failWith(429, ""), ok), 5, []int64{200, 400}, 0, "", false},
		{"words of the body", all(failWith(429, `{"error":{"message":"Please try again in 11.054s."}}`), ok), 5, []int64{11054}, 0, "", false},
		{"headers before words", all(failWith(429, `{"error":{"message":"try again in 11s"}}`, "Retry-After", "1"), ok), 5, []int64{1000}, 0, "", false},
		{"a header of nothing before words", all(failWith(429, `{"error":{"message":"try again in 11s"}}`, "Retry-After", "0"), ok), 5, []int64{0}, 0, "", false},
		{"gemini", all(failWith(429, `{"error":{"details":[{"retryDelay":"3s"}]}}`), ok), 5, []int64{3000}, 0, "", false},
		{"words before gemini", all(failWith(429, `{"error":{"message":"try again in 5s","details":[{"retryDelay":"3s"}]}}`), ok), 5, []int64{5000}, 0, "", false},
		{"until the limit's reset", all(failWith(429, "", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "7s"), ok), 5, []int64{7000}, 0, "", false},
		{"retry-after before the reset", all(failWith(429, "", "Retry-After", "1", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "7s"), ok), 5, []int64{1000}, 0, "", false},
		{"nothing is used up", all(failWith(429, "", "x-ratelimit-remaining-tokens", "1", "x-ratelimit-reset-tokens", "7s"), ok), 5, []int64{200}, 0, "", false},
		{"a reset is no reason after a 500", all(failWith(500, "", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "7s"), ok), 5, []int64{200}, 0, "", false},
		{"up to the bound", all(failWith(429, "", "Retry-After", "600"), ok), 5, []int64{600_000}, 0, "", false},
		{"beyond the bound", all(failWith(429, "", "Retry-After", "660"), ok), 5, nil, llm.ErrRateLimit, "delay of 11m0s, until 2000-01-01 00:11:00 UTC", false},
		{"quota", all(failWith(429, `{"error":{"code":"insufficient_quota"}}`, "Retry-After", "1")), 5, nil, llm.ErrQuotaExceeded, "429", false},
		{"400", all(failWith(400, `{"error":{"message":"no such field"}}`)), 5, nil, llm.ErrInvalidRequest, "no such field", false},
		{"401", all(failWith(401, `{"error":{"message":"wrong"}}`)), 5, nil, llm.ErrAuthentication, "wrong", false},
		{"403", all(failWith(403, `{"error":{"message":"not yours"}}`)), 5, nil, llm.ErrAuthentication, "not yours", false},
		{"404", all(failWith(404, `{"error":{"message":"no model m"}}`)), 5, nil, llm.ErrInvalidRequest, "no model m", false},
		{"413", all(failWith(413, "")), 5, nil, llm.ErrPayloadTooLarge, "413", false},
		{"400 that speaks of rates", all(failWith(400, `{"error":{"code":"rate_limit"}}`)), 5, nil, llm.ErrRateLimit, "400", true},
		{"overflow", all(failWith(400, `{"error":{"code":"context_length_exceeded"}}`)), 5, nil, llm.ErrContextOverflow, "400", false},
		{"a teapot", all(failWith(418, "short and stout")), 5, nil, llm.ErrUnknown, "short and stout", false},
		{"closed without an answer", all(cut, cut, ok), 5, []int64{200, 400}, 0, "", false},
		{"closed for ever", all(cut), 2, []int64{200}, llm.ErrTransport, "vendor.test broke off", true},
		{"head without a body", all(headThenCut, ok), 5, []int64{200}, 0, "", false},
		{"an empty answer", all(headThenEnd, ok), 5, []int64{200}, 0, "", false},
		{"no content", all(failWith(204, "")), 2, []int64{200}, llm.ErrIncompleteStream, "before the answer was complete", true},
		{"moved", all(failWith(307, "", "Location", "https://u:p@other.test/x?key=abcd")), 5, nil, llm.ErrInvalidRequest, "https://other.test/x?key=%3Credacted%3E", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, requests := inTurn(tt.answers...)
				var got told
				start := time.Now()
				err := bubbled(t, Config{}, h).Stream(t.Context(), request("m"), tt.attempts, got.emit)
				got.inOrder(t, err)
				waited := time.Since(start)
				for i, a := range got.attempts() {
					if i >= len(tt.delays) || a.DelayMS != tt.delays[i] || a.N != i+2 || a.Reason == "" {
						t.Fatalf("announced %+v, want %v", got.attempts(), tt.delays)
					}
					waited -= time.Duration(a.DelayMS) * time.Millisecond
				}
				// What was not announced is the wait for the end of an answer, or for its refusal's body.
				if len(got.attempts()) != len(tt.delays) || waited < 0 || waited > linger {
					t.Errorf("announced %+v, want %v; %v too much", got.attempts(), tt.delays, waited)
				}
				if len(requests.all()) != len(tt.delays)+1 {
					t.Errorf("%d requests", len(requests.all()))
				}
				for _, r := range requests.all() {
					if r.body != requests.all()[0].body || r.body == "" {
						t.Errorf("bodies differ: %q, %q", r.body, requests.all()[0].body)
					}
				}
				if tt.want == "" {
					if err != nil || got.text() != "x" {
						t.Errorf("%v, %v", got.events, err)
					}
					return
				}
				if f := fault(t, err); f.Err.Code != tt.code || f.Err.Retryable != tt.retry || !strings.Contains(f.Err.Message, tt.want) {
					t.Errorf("%v (%v, retryable %v)", f.Err.Message, f.Err.Code, f.Err.Retryable)
				}
			})
		})
	}
}

func TestNoMoreThanAHundredTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, requests := inTurn(failWith(500, "", "Retry-After", "0"))
		var got told
		_ = bubbled(t, Config{}, h).Stream(t.Context(), request("m"), 1000, got.emit)
		if len(requests.all()) != 100 {
			t.Errorf("%d requests", len(requests.all()))
		}
	})
}

func TestTheKeyIsNotShown(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	h, _ := inTurn(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("X-Request-Id", "req-1 "+key)
		w.WriteHeader(401)
		text := fmt.Sprintf("bad key %s (%s) ", key, r.Header.Get("Authorization"))
		fmt.Fprint(w, text+strings.Repeat("x", 20_000-len(text)))
	})
	r := loopback(t, Config{Auth: Bearer(fixed(key)), Query: map[string]string{"api_key": key}}, h)
	f := fault(t, r.Stream(t.Context(), request("m"), 5, (&told{}).emit))
	if f.Err.Code != llm.ErrAuthentication || f.Err.Status != 401 {
		t.Errorf("%+v", f.Err)
	}
	if n := utf8.RuneCountInString(f.Body); n != 16_384 || !f.BodyTruncated {
		t.Errorf("the body has %d characters, truncated %v", n, f.BodyTruncated)
	}
	if all := fmt.Sprintf("%+v %+v %v", *f, *f.Err, f.Header); strings.Contains(all, key) || !strings.Contains(all, "req-1 <redacted>") {
		t.Errorf("shows the key: %.2000s", all)
	}
	if f.Err.Message != "the vendor answered with status 401" {
		t.Errorf("message: %s", f.Err.Message)
	}
}

func TestAKeyUnderAnyNameIsNotShown(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprint(w, "odd: "+r.Header.Get("X-Id"))
	}
	f := fault(t, loopback(t, Config{Auth: Header("X-Id", fixed("odd-12345"))}, h).Stream(t.Context(), request("m"), 1, (&told{}).emit))
	if f.Err.Message != "odd: <redacted>" {
		t.Error(f.Err.Message)
	}
}

func TestAKeyAtTheCutOfABodyIsNotShown(t *testing.T) {
	const key = "sk-very-secret-0123456789"
	for _, before := range []int{maxRefusal - 10, maxRefusal - len(key), maxRefusal - 3} {
		h := failWith(400, `{"token": `+strings.Repeat(" ", 20)+`"`+strings.Repeat("x", before-32)+`"`+key+strings.Repeat("y", 100))
		f := fault(t, loopback(t, Config{Auth: Bearer(fixed(key))}, h).Stream(t.Context(), request("m"), 1, (&told{}).emit))
		// Covering the long field brings the body's end into what is kept.
		if strings.Contains(f.Body, "sk-v") || !strings.Contains(f.Body, "<redacted>") || !f.BodyTruncated {
			t.Errorf("with %d before: %q, %v", before, f.Body, f.BodyTruncated)
		}
	}
}

func TestShortBodiesAreShown(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"plain", "upstream is away", "upstream is away"},
		{"json", `{"error":{"message":"upstream is away"}}`, "upstream is away"},
		{"unknown json", `{"state":"away"}`, "the vendor answered with status 502"},
		{"page", "<html>away</html>", "the vendor answered with status 502"},
		{"500 characters", strings.Repeat("é", 500), strings.Repeat("é", 500)},
		{"501 characters", strings.Repeat("é", 501), "the vendor answered with status 502"},
		{"long message", `{"error":"` + strings.Repeat("é", 600) + `"}`, strings.Repeat("é", 500) + "…"},
		{"empty", "", "the vendor answered with status 502"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fault(t, loopback(t, Config{}, failWith(502, tt.body, "Cf-Ray", "r1")).Stream(t.Context(), request("m"), 1, (&told{}).emit))
			if f.Err.Message != tt.want || f.Body != tt.body || f.BodyTruncated || f.Err.RequestID != "r1" {
				t.Errorf("%q, body %q, id %s", f.Err.Message, f.Body, f.Err.RequestID)
			}
		})
	}
}

// Services behind each other give a request an id each. The one of the service that was asked comes first.
func TestTheIDOfARequest(t *testing.T) {
	names := []string{
		"X-Request-Id", "Request-Id", "X-Oai-Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Goog-Request-Id", "X-Generation-Id", "Cf-Ray",
	}
	for i, name := range names {
		var header []string
		for _, n := range names[i:] {
			header = append(header, n, "of "+n)
		}
		f := fault(t, loopback(t, Config{}, failWith(400, "", header...)).Stream(t.Context(), request("m"), 1, (&told{}).emit))
		if want := "of " + name; f.Err.RequestID != want {
			t.Errorf("the id is %q, want %q", f.Err.RequestID, want)
		}
	}
}

func TestABrokenConnectionKeepsWhatCame(t *testing.T) {
	for name, end := range map[string]func(w http.ResponseWriter){
		"reset": func(w http.ResponseWriter) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_ = c.(interface{ SetLinger(int) error }).SetLinger(0)
			_ = c.Close()
		},
		"closed": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			h, requests := inTurn(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, "data: {\"text\":\"a\"}\n\ndata: {\"text\":\"b\"}\n\ndata: {\"te")
				w.(http.Flusher).Flush()
				<-seen
				end(w)
			})
			var got told
			err := loopback(t, Config{}, h).Stream(t.Context(), request("m"), 5, func(e llm.Event) error {
				if d, ok := e.(llm.BlockDelta); ok && d.Text == "b" {
					close(seen)
				}
				return got.emit(e)
			})
			f := fault(t, err)
			if f.Err.Code != llm.ErrTransport || !f.Err.Retryable || !strings.HasSuffix(f.Err.Message, "broke off inside the answer") {
				t.Errorf("%+v", f.Err)
			}
			if got.text() != "ab" || len(requests.all()) != 1 {
				t.Errorf("%q after %d requests", got.text(), len(requests.all()))
			}
			got.inOrder(t, err)
		})
	}
}

func TestWhoStopsListeningEndsTheRequest(t *testing.T) {
	enough := errors.New("enough")
	gone := make(chan struct{})
	r := loopback(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"text\":\"a\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	err := r.Stream(t.Context(), request("m"), 5, func(e llm.Event) error {
		if _, ok := e.(llm.BlockDelta); ok {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Errorf("error = %v", err)
	}
	<-gone // the test's time limit is the other way out
}

func TestCancelling(t *testing.T) {
	why := errors.New("the user pressed escape")
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	begin := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	waiting := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	for name, tt := range map[string]struct {
		h    http.HandlerFunc
		auth Auth
	}{
		"before the answer": {h: hang}, "inside the answer": {h: begin}, "between two tries": {h: failWith(500, "", "Retry-After", "300")},
		"while a key is fetched": {h: hang, auth: Bearer(waiting)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(why) })
				h, _ := inTurn(tt.h) // takes the body: a server notices no end before
				err := bubbled(t, Config{Auth: tt.auth}, h).Stream(ctx, request("m"), 5, (&told{}).emit)
				if err != why {
					t.Errorf("error = %v", err)
				}
			})
		})
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	conns := map[string]bool{}
	h, requests := inTurn(failWith(500, "busy"), answerWith("x"))
	r := loopback(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		h(w, r)
	})
	for range 3 {
		if err := r.Stream(t.Context(), request("m"), 2, (&told{}).emit); err != nil {
			t.Fatal(err)
		}
	}
	if len(requests.all()) != 4 || len(conns) != 1 {
		t.Errorf("%d requests over %d connections", len(requests.all()), len(conns))
	}
}

func TestRequestsSideBySide(t *testing.T) {
	r := loopback(t, Config{Auth: Bearer(fixed("sk-12345")), Overlay: Overlay{Headers: map[string]string{"X-A": "1"}}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answerWith(strings.Split(string(body), ",")...)(w, r)
	})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			var got told
			model := fmt.Sprintf("m%d", i)
			err := r.Stream(t.Context(), request(model), 1, got.emit)
			if err != nil || !strings.Contains(got.text(), model) {
				t.Errorf("%q, %v", got.text(), err)
			}
		})
	}
	wg.Wait()
}
