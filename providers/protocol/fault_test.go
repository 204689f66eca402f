package protocol_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func TestParseFailure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		want       string // codes, status, message, delay; "": no failure
	}{
		{"openai", `{"error":{"message":"No.","type":"invalid_request_error","param":null,"code":"X"}}`, "x,invalid_request_error 0 No."},
		{"code is a status", `{"error":{"message":"rate limit","code":429}}`, " 429 rate limit"},
		{"code is a status in quotes", `{"error":{"message":"m","code":"503"}}`, " 503 m"},
		{"code is some number", `{"error":{"message":"m","code":1301}}`, " 0 m"},
		{"error is text", `{"error":"model not found"}`, " 0 model not found"},
		{"error is text, code beside", `{"error":"no","code":"bad","status":500}`, "bad 500 no"},
		{"marked by object", `{"object":"error","message":"m","type":"BadRequestError","code":400}`, "badrequesterror 400 m"},
		{"anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r"}`, "overloaded_error 0 Overloaded"},
		{"event of responses", `{"type":"error","code":"slow_down","message":"m","param":null}`, "slow_down 0 m"},
		{"code outside too", `{"error":{"type":"a","message":"m"},"code":"B"}`, "a,b 0 m"},
		{"google", `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"retryDelay":"38.5s"}]}}`,
			"resource_exhausted 429 m 38.5s"},
		{"google, details of other kinds", `{"error":{"message":"m","details":[1,null,"x",{"retryDelay":3},{"retryDelay":"-1s"}]}}`, " 0 m"},
		{"in a list", `[{"error":{"code":400,"message":"m"}}]`, " 400 m"},
		{"only a message", `{"message":"m"}`, " 0 m"},
		{"only a message, in the other way of AWS", `{"Message":"m"}`, " 0 m"},
		{"only a detail", `{"detail":"Not Found"}`, " 0 Not Found"},
		{"details in a list", `{"detail":[{"loc":["body"],"type":"missing"},{"msg":"Field required"}]}`, " 0 Field required"},
		{"router's supplier", `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"too hot\"}}"}}}`,
			" 400 Provider returned error: too hot"},
		{"router's supplier, plain", `{"error":{"message":"Provider returned error","metadata":{"raw":"boom"}}}`, " 0 Provider returned error: boom"},
		{"error is null", `{"error":null,"choices":[]}`, ""},
		{"error is empty", `{"error":{},"choices":[]}`, ""},
		{"error is false", `{"error":false}`, ""},
		{"a message that is an object", `{"message":{"content":"hi"},"done":false}`, ""},
		{"something else", `{"choices":[]}`, ""},
		{"text", `upstream connect error`, ""},
		{"nothing", ``, ""},
		{"null", `null`, ""},
		{"an empty list", `[]`, ""},
		{"a list of null", `[null]`, ""},
		{"a list of two", `[{"message":"a"},{"message":"b"}]`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, ok := protocol.ParseFailure([]byte(tc.body))
			if !ok {
				if tc.want != "" {
					t.Errorf("no failure, want %s", tc.want)
				}
				return
			}
			got := strings.Join(f.Codes, ",") + " " + strconv.Itoa(f.Status) + " " + f.Message
			if f.RetryAfter > 0 {
				got += " " + f.RetryAfter.String()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if f.Body != tc.body {
				t.Errorf("body = %q", f.Body)
			}
		})
	}
}

// overflowWords are what vendors say of a prompt that is too long.
var overflowWords = []string{
	"prompt is too long: 210000 tokens > 200000 maximum",
	"Prompt too long; exceeded max context length by 12 tokens",
	"Input is too long for requested model.",
	"Your input exceeds the context window of this model.",
	"Input length 9000 exceeds the maximum context length of 8192",
	"This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens",
	"This exceeds the model's maximum context length",
	"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
	"tokens in request more than max tokens allowed",
	"This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
	"Please reduce the length of the messages or completion.",
	"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
	"maximum context length of 4096 tokens",
	"prompt token count exceeds the maximum allowed input length of 32,768",
	"The input (516368 tokens) is longer than the model's context length (262144 tokens).",
	"prompt token count of 64123 exceeds the limit of 64000",
	"the request exceeds the available context size, try increasing it",
	"tokens to keep from the initial prompt is greater than the context length",
	"invalid params, context window exceeds limit",
	"Your request exceeded model token limit: 262144",
	"context_length_exceeded",
	"The engine's context length is only 2048 tokens",
	"input length and `max_tokens` exceeds context length",
	"exceeded context length",
	"too large for model with 32768 maximum context length",
	"the prompt has 9,000 tokens, but the configured context size is 8,192 tokens",
	"too many tokens in the prompt",
	"token limit exceeded",
	"400 (no body)",
	"Range of input length should be [1, 129024]",
	"Input too long: 140000 input tokens, limit is 131072",
	"no user query found in messages",
	"input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
}

func TestClassifyOverflow(t *testing.T) {
	t.Parallel()
	for _, words := range overflowWords {
		for _, f := range []protocol.Failure{
			{Status: 400, Message: words},
			{Status: 400, Body: words},
			{Message: strings.ToUpper(words)},
		} {
			if e := protocol.Classify(f); e.Code != llm.ErrContextOverflow || e.Retryable {
				t.Errorf("%+v is %v (retryable: %v)", f, e.Code, e.Retryable)
			}
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const (
		invalid  = llm.ErrInvalidRequest
		overflow = llm.ErrContextOverflow
		large    = llm.ErrPayloadTooLarge
		auth     = llm.ErrAuthentication
		rate     = llm.ErrRateLimit
		quota    = llm.ErrQuotaExceeded
		policy   = llm.ErrContentPolicy
		internal = llm.ErrProviderInternal
		busy     = llm.ErrOverloaded
	)
	for _, tc := range []struct {
		name   string
		status int
		codes  string // in a list
		text   string
		want   llm.ErrorCode
	}{
		{"overflow by code", 400, "context_length_exceeded", "", overflow},
		{"overflow by code in a stream", 0, "Context_Length_Exceeded", "", overflow},
		{"anthropic's code", 0, "model_context_window_exceeded", "", overflow},
		{"a prompt too long behind a 500", 500, "", "no user query found in messages", overflow},
		{"a prompt too long behind a 503", 503, "", "the request exceeds the available context size", overflow},
		{"some limit behind a 503", 503, "", "load exceeds the limit of 5", internal},
		{"tokens of a minute", 429, "", "Rate limit reached: maximum context length is 5 tokens per minute", rate},
		{"bedrock throttles", 429, "", "Too many tokens, please wait before trying again.", rate},
		{"throttled", 400, "", "Throttling error: too many tokens", invalid},
		{"unavailable", 503, "", "Service unavailable: token limit exceeded", internal},
		{"too many requests", 429, "", "too many requests, token limit exceeded", rate},
		{"413", 413, "", "", large},
		{"413 of a prompt", 413, "", "prompt is too long", overflow},
		{"anthropic's large request", 0, "", "request_too_large: too big", large},
		{"a proxy's large request", 400, "", "<h1>413 Request Entity Too Large</h1>", large},
		{"payload", 400, "", "Payload Too Large", large},
		{"request", 429, "rate_limit_exceeded", "Request too large for gpt-x on tokens per min", large},
		{"azure's filter", 400, "content_filter", "blocked by the content_filter", policy},
		{"content policy", 400, "", "violates our content-policy", policy},
		{"safety", 400, "", "Blocked for SAFETY reasons", policy},
		{"a parameter of that name", 400, "", "unknown parameter safety_identifier", invalid},
		{"cyber", 0, "cyber_policy", "", policy},
		{"moderated", 403, "", `{"metadata":{"flagged_input":"x"}}`, policy},
		{"anthropic's filter", 400, "invalid_request_error", "Output blocked by content filtering policy", policy},
		{"deepseek's filter", 400, "invalid_request_error", "Content Exists Risk", policy},
		{"openai's flag", 400, "invalid_prompt", "your prompt was flagged as potentially violating our usage policy", policy},
		{"anthropic's empty account", 400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", quota},
		{"anthropic's limit of one's own", 400, "invalid_request_error", "You have reached your specified API usage limits.", quota},
		{"xai's empty account", 403, "", "Your newly created team doesn't have any credits yet.", quota},
		{"a model that is not in google's plan", 429, "resource_exhausted", "You exceeded your current quota, limit: 0, model: m. Please retry in 45s.", quota},
		{"ollama without memory", 500, "", "model requires more system memory (5.6 GiB) than is available (3.1 GiB)", invalid},
		{"llama.cpp without templates", 500, "server_error", "tools param requires --jinja flag", invalid},
		{"quota", 429, "insufficient_quota", "", quota},
		{"usage limit of a plan", 429, "usage_limit_reached", "", quota},
		{"quota in words", 429, "", "You exceeded your current quota", quota},
		{"quota in words that comes back", 429, "resource_exhausted", "You exceeded your current quota. Please retry in 38.5s.", rate},
		{"quota of the day", 429, "resource_exhausted", "Quota exceeded: GenerateRequestsPerDay. Please retry in 38.5s.", quota},
		{"quota words elsewhere", 400, "", "quota exceeded", invalid},
		{"not in the plan", 0, "usage_not_included", "", quota},
		{"billing", 0, "billing_error", "", quota},
		{"402", 402, "", "Insufficient Balance", quota},
		{"401", 401, "", "", auth},
		{"403", 403, "", "", auth},
		{"bad key by code", 0, "authentication_error", "", auth},
		{"bad key by words", 400, "invalid_argument", "API key not valid. Please pass a valid API key.", auth},
		{"not allowed", 0, "permission_error", "", auth},
		{"rate by code", 0, "rate_limit_exceeded", "", rate},
		{"rate by part of a code", 0, "tokens,my_rate_limit_error", "", rate},
		{"throttling", 0, "ThrottlingException", "", rate},
		{"throttling, tokens", 400, "ThrottlingException", "Too many tokens, please wait before trying again.", rate},
		{"a quota of AWS", 400, "ServiceQuotaExceededException", "", quota},
		{"access to a model of AWS", 0, "AccessDeniedException", "", auth},
		{"a model of AWS that is not up", 424, "ModelErrorException", "", internal},
		{"rate by words", 0, "", "Request rate increased too quickly", rate},
		{"rate limit, tokens", 429, "", "rate limit reached: 30000 tokens per minute", rate},
		{"429", 429, "", "", rate},
		{"google's 429", 429, "RESOURCE_EXHAUSTED", "", rate},
		{"overloaded", 0, "overloaded_error", "Overloaded", busy},
		{"overloaded with a status", 503, "server_is_overloaded", "", busy},
		{"slow down", 0, "slow_down", "", busy},
		{"529", 529, "", "", busy},
		{"api_error", 0, "api_error", "", internal},
		{"server_error", 400, "server_error", "", internal},
		{"exhausted", 0, "resource_exhausted", "", internal},
		{"unavailable by code", 0, "UNAVAILABLE", "", internal},
		{"408", 408, "", "", internal},
		{"409", 409, "", "", internal},
		{"500", 500, "invalid_request_error", "", internal},
		{"502", 502, "", "<html>Bad Gateway</html>", internal},
		{"invalid prompt", 0, "invalid_prompt", "", invalid},
		{"bad image", 0, "image_parse_error", "", invalid},
		{"400", 400, "", "", invalid},
		{"404", 404, "", "", invalid},
		{"422", 422, "", "", invalid},
		{"418", 418, "", "", llm.ErrUnknown},
		{"nothing", 0, "", "", llm.ErrUnknown},
		{"a code of their own", 0, "weird", "", llm.ErrUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := protocol.Failure{Status: tc.status, Message: tc.text, RequestID: "r"}
			if tc.codes != "" {
				f.Codes = strings.Split(tc.codes, ",")
			}
			e := protocol.Classify(f)
			if e.Code != tc.want {
				t.Fatalf("%v, want %v", e.Code, tc.want)
			}
			retryable := e.Code == rate || e.Code == internal || e.Code == busy
			if e.Retryable != retryable {
				t.Errorf("retryable is %v", e.Retryable)
			}
			if e.Message == "" || e.Status != tc.status || e.RequestID != "r" {
				t.Errorf("%+v lost what was known", e)
			}
			if (e.Next != "") != (e.Code == quota || e.Code == auth) {
				t.Errorf("next is %q", e.Next)
			}
			if tc.codes != "" && f.Codes[0] != strings.Split(tc.codes, ",")[0] {
				t.Errorf("the failure was changed to %v", f.Codes)
			}
		})
	}
}

func TestClassifyMessages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f    protocol.Failure
		want string
	}{
		{protocol.Failure{Codes: []string{"cyber_policy"}, Message: " "}, "the vendor rejected the request because of its content policy"},
		{protocol.Failure{Status: 500}, "the vendor answered with status 500"},
		{protocol.Failure{Codes: []string{"odd"}}, "the vendor answered with the error odd"},
		{protocol.Failure{}, "the vendor answered with an error without a message"},
		{protocol.Failure{Status: 500, Message: "words"}, "words"},
	} {
		got := protocol.Classify(tc.f).Message
		if got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.f, got, tc.want)
		}
		if said := tc.f.Status != 0 && tc.f.Message != "" || len(tc.f.Codes) > 0 && tc.f.Codes[0] == "odd"; protocol.Wordless(got) == said {
			t.Errorf("%q counts as the vendor's own words: %v", got, !said)
		}
	}
}

func TestDelayInWords(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]time.Duration{
		"Please try again in 11.054s.":                 11054 * time.Millisecond,
		"try again in 35 seconds":                      35 * time.Second,
		"try again in 28ms":                            28 * time.Millisecond,
		"Please Retry After 20 Seconds, or pay":        20 * time.Second,
		"Please try again in 1m12.5s. Need more?":      72500 * time.Millisecond,
		"try again in 2 minutes":                       2 * time.Minute,
		"try again in 1h0m30s":                         time.Hour + 30*time.Second,
		"retrying in 3 hours":                          3 * time.Hour,
		"try again later":                              0,
		"try again in 5 parsecs":                       0,
		"try again in 99999999999999999999999 seconds": 0,
		"entry in 5s":                                  0,
	} {
		for _, f := range []protocol.Failure{{Status: 429, Message: words}, {Status: 429, Body: words}} {
			if got := protocol.Classify(f).RetryAfter; got != want {
				t.Errorf("%+v: %v, want %v", f, got, want)
			}
		}
	}
	if got := protocol.Classify(protocol.Failure{Status: 429, Message: "try again in 9s", RetryAfter: 2 * time.Second}).RetryAfter; got != 2*time.Second {
		t.Errorf("a header's delay lost against words: %v", got)
	}
	if got := protocol.Classify(protocol.Failure{Status: 400, Message: "try again in 9s"}).RetryAfter; got != 0 {
		t.Errorf("an error that is not retried has the delay %v", got)
	}
}

// Whatever a vendor sends, there is an error that says something, and a second look at it gives the same.
func TestClassifyIsTotal(t *testing.T) {
	t.Parallel()
	words := append([]string{"", "rate limit", "quota exceeded", "try again in 3s", "boom"}, overflowWords...)
	rapid.Check(t, func(t *rapid.T) {
		f := protocol.Failure{
			Status:  rapid.SampledFrom([]int{0, 200, 400, 401, 403, 404, 408, 413, 429, 500, 503, 529}).Draw(t, "status"),
			Codes:   rapid.SliceOf(rapid.SampledFrom([]string{"", "api_error", "Rate_Limit", "context_length_exceeded", "x"})).Draw(t, "codes"),
			Message: rapid.SampledFrom(words).Draw(t, "message"),
			Body:    rapid.SampledFrom(words).Draw(t, "body"),
		}
		e, again := protocol.Classify(f), protocol.Classify(f)
		if *e != *again {
			t.Fatalf("%+v and then %+v", e, again)
		}
		if e.Message == "" || e.RetryAfter < 0 || e.RetryAfter > 0 && !e.Retryable {
			t.Fatalf("%+v", e)
		}
	})
}

func FuzzParseFailure(f *testing.F) {
	for _, s := range []string{
		`{"error":{"message":"m","code":429,"details":[{"retryDelay":"1s"}],"metadata":{"raw":"{}"}}}`, `{"error":"x"}`,
		`[{"detail":[{"msg":"m"}]}]`, `{"object":"error","message":"try again in 1h2m3s"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		failure, ok := protocol.ParseFailure(body)
		if !ok {
			failure.Body = string(body)
		}
		if e := protocol.Classify(failure); e.Message == "" || e.RetryAfter < 0 {
			t.Fatalf("%q: %+v", body, e)
		}
	})
}
