package e2e_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
)

// outcome is how a question to a vendor ended, as a user sees it.
type outcome struct {
	code           string // of the error; empty: there was none
	message, next  string
	notices        []string // of further tries
	stdout, stderr string
	exit           int
	took           time.Duration
}

// ask asks a rig's model one question, with the log at its most talkative, and makes sure that the key is to be seen nowhere.
func ask(t *testing.T, r *rig.Rig) outcome {
	t.Helper()
	began := time.Now()
	res := r.Gantry("exec", "--events", "--log", "trace", "hello")
	o := outcome{stdout: res.Stdout, stderr: res.Stderr, exit: res.Code, took: time.Since(began)}
	for _, e := range rig.Events(t, res.Stdout) {
		switch e.Kind {
		case "stream.retried":
			var b struct{ Cause string }
			e.Into(t, &b)
			o.notices = append(o.notices, b.Cause)
		case "turn.ended":
			var b struct {
				Error *struct{ Code, Message, Next string }
			}
			e.Into(t, &b)
			if b.Error != nil {
				o.code, o.message, o.next = b.Error.Code, b.Error.Message, b.Error.Next
			}
		}
	}
	keyIsNowhere(t, r, res)
	return o
}

// keyIsNowhere makes sure that the key is in no output and in no file of a rig.
func keyIsNowhere(t *testing.T, r *rig.Rig, res rig.Result) {
	t.Helper()
	for _, out := range []string{res.Stdout, res.Stderr} {
		if at := strings.Index(out, vendors.Key); at >= 0 {
			t.Errorf("the key was printed: …%s", out[max(0, at-200):min(len(out), at+100)])
		}
	}
	for _, dir := range []string{r.Home, r.Dir} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), vendors.Key) {
				t.Errorf("%s holds the key", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// failed checks that a question ended with an error that says what it should, in one line, and what to do.
func (o outcome) failed(t *testing.T, code, message, next string) {
	t.Helper()
	if o.exit != 1 || o.code != code || !strings.Contains(o.message, message) || !strings.Contains(o.next, next) || (next == "") != (o.next == "") {
		t.Errorf("exit %d, %s: %s\nNext: %s\nwant %s with %q and %q\nstderr:\n%s", o.exit, o.code, o.message, o.next, code, message, next, o.stderr)
	}
	if strings.Contains(o.message, "\n") || len(o.message) > 1200 {
		t.Errorf("the message is no line that one would read:\n%s", o.message)
	}
}

// went checks that a question was answered in the end, and how many further tries the user was told of.
func (o outcome) went(t *testing.T, notices int, says string) {
	t.Helper()
	if o.exit != 0 || !strings.Contains(o.stdout, "All is well.") {
		t.Fatalf("exit %d, %s: %s\n%s", o.exit, o.code, o.message, o.stderr)
	}
	if len(o.notices) != notices || notices > 0 && !strings.Contains(o.notices[0], says) {
		t.Errorf("the user read %q, want %d notices with %q", o.notices, notices, says)
	}
}

var allIsWell = vendors.Answer{Text: "All is well."}

// TestVendorRefusals: what no second try mends is tried once, and each reason has its own message and next step.
func TestVendorRefusals(t *testing.T) {
	t.Parallel()
	for reason, want := range map[vendors.Reason]struct{ code, message, next string }{
		vendors.WrongKey:     {"authentication", "rejected the key: ", "check that api_key in the provider's block"},
		vendors.Forbidden:    {"authentication", "does not allow this: ", "check the permissions of the key in the provider's block"},
		vendors.Quota:        {"quota-exceeded", " is used up: ", "check the plan and the billing"},
		vendors.Unpaid:       {"quota-exceeded", " is used up: ", "check the plan and the billing"},
		vendors.TooLong:      {"context-overflow", "the conversation is too long for ", "start a new thread"},
		vendors.AgainstRules: {"content-policy", "rejected this because of its content policy: ", "reword it"},
		vendors.UnknownModel: {"invalid-request", " has no model ", "`gantry models` lists"},
	} {
		for vendor := range vendorBlocks {
			if !vendors.Refuses(vendor, reason) {
				continue
			}
			t.Run(vendor+"/"+string(reason), func(t *testing.T) {
				t.Parallel()
				s := vendors.Start(t, vendor, vendors.Refuse(vendor, reason))
				r := rig.New(t, "")
				useVendor(r, vendor, s.URL)
				o := ask(t, r)
				o.failed(t, want.code, want.message, want.next)
				if n := len(s.Requests()); n != 1 || len(o.notices) > 0 {
					t.Errorf("%d requests, notices %q", n, o.notices)
				}
			})
		}
	}
}

// TestVendorRecovers: what may pass is tried again, when the vendor says so, and the user is told of each try.
func TestVendorRecovers(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		for name, first := range map[string]vendors.Answer{
			"overloaded": vendors.Refuse(vendor, vendors.Overloaded), "too many requests": vendors.Refuse(vendor, vendors.RateLimited),
			"retry-after": {Fail: 429, RetryAfter: 1}, "internal": {Fail: 500}, "gateway": {Raw: &vendors.Raw{Status: 502, Type: "text/html", Body: "<html>Bad Gateway"}},
		} {
			t.Run(vendor+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := vendors.Start(t, vendor, first, allIsWell)
				r := rig.New(t, "")
				useVendor(r, vendor, s.URL)
				o := ask(t, r)
				o.went(t, 1, "status ")
				if n := len(s.Requests()); n != 2 {
					t.Errorf("%d requests", n)
				}
				if asked := time.Duration(first.RetryAfter) * time.Second; o.took < asked {
					t.Errorf("asked again after %v, the vendor wanted %v", o.took, asked)
				}
				requests := s.Requests()
				if string(requests[0].Raw) != string(requests[1].Raw) {
					t.Error("the second request differs from the first")
				}
			})
		}
	}
}

// TestVendorGivesUp: patience has an end, which the message tells.
func TestVendorGivesUp(t *testing.T) {
	t.Parallel()
	t.Run("overloaded for long", func(t *testing.T) {
		t.Parallel()
		a := vendors.Refuse("anthropic", vendors.Overloaded)
		a.Forever = true
		s := vendors.Start(t, "anthropic", a)
		r := rig.New(t, "")
		useVendor(r, "anthropic", s.URL)
		r.Config("limits {\n  busy_wait = \"4s\"\n}\n")
		o := ask(t, r)
		o.failed(t, "overloaded", "is overloaded: Overloaded", "try again later")
		// Two layers try again, and no more often than this together.
		if n := len(s.Requests()); n < 6 || n > 12 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("come back in three hours", func(t *testing.T) {
		t.Parallel()
		a := vendors.Refuse("openai-responses", vendors.RateLimited)
		a.RetryAfter = 3 * 3600
		s := vendors.Start(t, "openai-responses", a)
		r := rig.New(t, "")
		useVendor(r, "openai-responses", s.URL)
		o := ask(t, r)
		o.failed(t, "rate-limit", "requests a delay of 3h0m0s, until ", "try again then")
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("retries = 0 and an answer that is late", func(t *testing.T) {
		t.Parallel()
		s := vendors.Start(t, "gemini", vendors.Answer{Text: "late", Pause: time.Minute}, allIsWell)
		r := rig.New(t, "")
		useVendor(r, "gemini", s.URL, `  timeout = "300ms"`, `  retries = 0`)
		ask(t, r).went(t, 1, "did not begin to respond within 300ms")
	})
}

// TestVendorAnswersOddly: what is no answer at all says so, and where to look.
func TestVendorAnswersOddly(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with %d headers", len(r.Header))
	}))
	t.Cleanup(elsewhere.Close)
	document := map[string]string{
		"openai-chat": `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`,
		"anthropic":   `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`,
	}
	for _, vendor := range []string{"openai-chat", "anthropic", "ollama"} {
		for name, tc := range map[string]struct {
			raw                 vendors.Raw
			code, message, next string
		}{
			"a page":     {vendors.Raw{Type: "text/html", Body: "<!doctype html><title>Sign in</title>"}, "invalid-output", "answered with a web page (text/html)", "base_url"},
			"text":       {vendors.Raw{Type: "text/plain", Body: "it works!"}, "invalid-output", "answered with text/plain instead of a stream: it works!", "base_url"},
			"a document": {vendors.Raw{Type: "application/json", Body: document[vendor]}, "invalid-output", "a whole JSON document (application/json)", "base_url"},
			"compressed": {vendors.Raw{Type: "text/event-stream", Header: map[string]string{"Content-Encoding": "gzip"}, Body: "\x1f\x8b\x08"},
				"invalid-output", "compressed its response (gzip)", "proxy"},
			"redirected": {vendors.Raw{Status: 307, Header: map[string]string{"Location": elsewhere.URL + "/login?key=" + vendors.Key}},
				"invalid-request", "redirects requests to " + elsewhere.URL + "/login?key=%3Credacted%3E", "set base_url"},
			"no such address": {vendors.Raw{Status: 404, Type: "text/plain", Body: "404 page not found\n"}, "invalid-request", "has nothing at this address", "base_url"},
			"a page of errors": {vendors.Raw{Status: 403, Type: "text/html", Body: "<html>" + strings.Repeat("blocked ", 1000)},
				"authentication", "does not allow this", "check the permissions of the key"},
			"a refusal of 20 MB": {vendors.Raw{Status: 400, Type: "application/json", Body: fmt.Sprintf(`{"error":{"message":"%s"}}`, strings.Repeat(vendors.Key+" ", 1<<20))},
				"invalid-request", "refused the request (status 400)", ""},
			"the key in all forms": {vendors.Raw{Status: 401, Type: "text/plain", Header: map[string]string{"X-Request-Id": vendors.Key},
				Body: "no: Authorization: Bearer " + vendors.Key + "; x-api-key=" + vendors.Key}, "authentication", "rejected the key: no", "api_key"},
			"an error that says all is well": {vendors.Raw{Type: "application/json", Body: `{"error":{"message":"invalid key ` + vendors.Key + `","code":401}}`},
				"authentication", "rejected the key: invalid key <redacted>", "api_key"},
		} {
			if tc.raw.Body == "" && tc.raw.Status == 0 {
				continue // Ollama's document is a stream of one line
			}
			t.Run(vendor+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := vendors.Start(t, vendor, vendors.Answer{Raw: &tc.raw})
				r := rig.New(t, "")
				useVendor(r, vendor, s.URL)
				o := ask(t, r)
				o.failed(t, tc.code, tc.message, tc.next)
				if n := len(s.Requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// TestVendorStopsAnAnswer: an answer that a filter, a limit or a mistake of the vendor's ended is not passed off as complete.
func TestVendorStopsAnAnswer(t *testing.T) {
	t.Parallel()
	for vendor := range vendorBlocks {
		run := func(name string, check func(*testing.T, outcome), answers ...vendors.Answer) {
			t.Run(vendor+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := vendors.Start(t, vendor, answers...)
				r := rig.New(t, "")
				useVendor(r, vendor, s.URL)
				check(t, ask(t, r))
			})
		}
		if vendor != "ollama" { // has no filter
			filtered := func(t *testing.T, o outcome) {
				o.failed(t, "content-policy", "stopped the answer under its content policy (", "reword it")
			}
			run("filtered", filtered, vendors.Answer{Text: "It goes like", Stop: vendors.Filtered})
			run("filtered before a word", filtered, vendors.Answer{Stop: vendors.Filtered})
		}
		run("at the limit", func(t *testing.T, o outcome) {
			if o.exit != 0 || !strings.Contains(o.stdout, "It goes like") || !strings.Contains(o.stdout, "cut off at the limit of its length") {
				t.Errorf("exit %d\n%s", o.exit, o.stdout)
			}
		}, vendors.Answer{Text: "It goes like", Stop: vendors.AtLimit}, vendors.Answer{Text: " this."})
		run("at the limit again", func(t *testing.T, o outcome) {
			o.failed(t, "answer-cut-off", "cut off at the limit of its length, twice in a row", "raise max_output_tokens")
		}, vendors.Answer{Text: "It goes like", Stop: vendors.AtLimit}, vendors.Answer{Text: " this,", Stop: vendors.AtLimit})
		if vendor == "gemini" {
			run("malformed", func(t *testing.T, o outcome) {
				o.went(t, 1, "could not finish the answer (MALFORMED_FUNCTION_CALL)")
			}, vendors.Answer{Stop: vendors.Malformed}, allIsWell)
		}
	}
}

// TestVendorWithoutKey: the error names the variable, the line and the other providers.
func TestVendorWithoutKey(t *testing.T) {
	t.Parallel()
	for vendor, b := range vendorBlocks {
		t.Run(vendor, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "") // its block is "scripted"
			r.Config(fmt.Sprintf(`
default_model = "real"

provider "vendor" {
  source   = %q
  base_url = "http://127.0.0.1:9%s"
  api_key  = env("NOBODY_SETS_THIS")
}

model "real" {
  provider = "vendor"
  name     = %q
}
`, b.source, b.path, b.model))
			res := r.Gantry("exec", "hello")
			if res.Code != 1 {
				t.Errorf("exit %d", res.Code)
			}
			for _, want := range []string{`"NOBODY_SETS_THIS" is not set`, "gantry.hcl:26", "Next: set NOBODY_SETS_THIS where gantry is started", ": scripted"} {
				if !strings.Contains(res.Stderr, want) {
					t.Errorf("%q is missing:\n%s", want, res.Stderr)
				}
			}
		})
	}
}
