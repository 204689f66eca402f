package route

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// TestPatience has servers that are slow in different ways. Fake time makes the waits exact.
func TestPatience(t *testing.T) {
	stream := func(parts ...any) http.HandlerFunc { // texts are sent, durations waited
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			for _, p := range parts {
				switch p := p.(type) {
				case time.Duration:
					select {
					case <-time.After(p):
					case <-r.Context().Done():
						return
					}
				case string:
					_, _ = io.WriteString(w, p)
					w.(http.Flusher).Flush()
				}
			}
		}
	}
	repeat := func(n int, parts ...any) []any {
		var out []any
		for range n {
			out = append(out, parts...)
		}
		return out
	}
	const delta, end = "data: {\"text\":\"x\"}\n\n", "data: [DONE]\n\n"
	limits := Transport{IdleTimeout: 2500 * time.Millisecond, HeaderTimeout: 4 * time.Second, AnswerTimeout: time.Minute}
	tests := []struct {
		name  string
		h     http.HandlerFunc
		limit Transport
		after time.Duration // linger not counted
		want  string        // of the error; empty: none
		retry bool
		next  string
	}{
		{"comments keep an answer alive", stream(append(repeat(5, ": still here\n", time.Second), delta+end)...), limits, 5 * time.Second, "", false, ""},
		{"single bytes do too", stream(append(repeat(5, ":", 2*time.Second), "\n"+delta+end)...), limits, 10 * time.Second, "", false, ""},
		{"silence after a comment", stream(": hello\n\n", time.Hour), limits, 2500 * time.Millisecond, "vendor.test sent nothing for 2.5s during its response", true, "idle_timeout"},
		{"silence after the head", stream(time.Hour), limits, 2500 * time.Millisecond, "sent nothing for 2.5s", true, "idle_timeout"},
		{"silence after a delta", stream(delta, time.Second, delta, time.Hour), limits, 3500 * time.Millisecond, "sent nothing for 2.5s", true, "idle_timeout"},
		{"no head", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, limits, 4 * time.Second, "did not begin to respond within 4s", true, "increase timeout"},
		{"comments for ever", stream(repeat(100, ": still here\n", time.Second)...), limits, time.Minute, "not complete after 1m0s", false, "request less"},
		{"the reason of the end, and then silence", stream(delta+"data: {\"over\":true}\n\n", time.Hour), Transport{IdleTimeout: time.Minute}, lastWords, "", false, ""},
		{"the reason of the end, and silence that is too long anyway", stream(delta+"data: {\"over\":true}\n\n", time.Hour), limits, 2500 * time.Millisecond, "", false, ""},
		{"the end does not wait for the end of the bytes", stream(delta+end, time.Hour), limits, linger, "", false, ""},
		{"without limits", stream(time.Hour, delta, 24*time.Hour, delta+end), Transport{IdleTimeout: -1, HeaderTimeout: -1, AnswerTimeout: -1}, 25 * time.Hour, "", false, ""},
		{"default for silence", stream(delta, time.Hour), Transport{}, 5 * time.Minute, "sent nothing for 5m0s", true, "idle_timeout"},
		{"default for the head", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Transport{}, 5 * time.Minute, "within 5m0s", true, "increase timeout"},
		{"a refusal without its body", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, Transport{}, refusalTimeout, "status 400", false, ""},
		{"a refusal that drips", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "no ")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}, Transport{}, refusalTimeout, "no no no", false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, requests := inTurn(tt.h)
				var got told
				r := bubbled(t, Config{Transport: tt.limit}, h)
				start := time.Now()
				err := r.Stream(t.Context(), request("m"), 5, got.emit)
				got.inOrder(t, err)
				if d := time.Since(start) - tt.after; d < 0 || d > linger {
					t.Errorf("took %v, want %v", time.Since(start), tt.after)
				}
				if len(requests.all()) != 1 {
					t.Errorf("%d requests", len(requests.all()))
				}
				if tt.want == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				f := fault(t, err)
				if !strings.Contains(f.Err.Message, tt.want) || f.Err.Retryable != tt.retry {
					t.Errorf("%v, retryable %v", f.Err.Message, f.Err.Retryable)
				}
				if f.Err.Status == 0 && !strings.Contains(f.Err.Next, tt.next) {
					t.Errorf("next: %s", f.Err.Next)
				}
			})
		})
	}
}

func TestASlowListenerIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got told
		r := bubbled(t, Config{Transport: Transport{IdleTimeout: time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{"data: {\"text\":\"a\"}\n\n", "data: {\"text\":\"b\"}\n\n", "data: [DONE]\n\n"} {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
			}
		})
		err := r.Stream(t.Context(), request("m"), 1, func(e llm.Event) error {
			time.Sleep(time.Minute)
			return got.emit(e)
		})
		if err != nil || got.text() != "ab" {
			t.Errorf("%q, %v", got.text(), err)
		}
	})
}

// A model that thinks for long sends comments, which are no events: whoever waits hears that it lives.
func TestSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t, Config{Transport: Transport{IdleTimeout: 20 * time.Second}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 12 {
				_, _ = io.WriteString(w, ": still thinking\n\n")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Second) // in the bubble
			}
			_, _ = io.WriteString(w, "data: {\"text\":\"a\"}\n\ndata: [DONE]\n\n")
		})
		var signs []time.Duration
		start := time.Now()
		err := r.Stream(t.Context(), request("m"), 1, func(e llm.Event) error {
			if _, ok := e.(llm.Alive); ok {
				signs = append(signs, time.Since(start))
			}
			return nil
		})
		if err != nil || len(signs) < 3 {
			t.Errorf("signs of life after %v, %v", signs, err)
		}
		for i := 1; i < len(signs); i++ {
			if d := signs[i] - signs[i-1]; d < aliveEvery {
				t.Errorf("signs of life %v apart", d)
			}
		}
	})
}

func TestAnEndlessAnswerIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		part  string
		limit int64
		want  string
	}{
		"many deltas": {"data: {\"text\":\"x\"}\n\n", 1 << 20, "exceeds 1048576 bytes without an end"},
		"one line":    {strings.Repeat("x", 1<<16), 64 << 20, "longer than"},
		"blank lines": {strings.Repeat("\n", 1<<16), 1 << 20, "exceeds 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := loopback(t, Config{Transport: Transport{MaxAnswer: tt.limit}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for {
					if _, err := io.WriteString(w, tt.part); err != nil {
						return
					}
				}
			})
			f := fault(t, r.Stream(t.Context(), request("m"), 5, (&told{}).emit))
			if f.Err.Code != llm.ErrInvalidOutput || f.Err.Retryable || !strings.Contains(f.Err.Message, tt.want) {
				t.Errorf("%+v", f.Err)
			}
		})
	}
}
