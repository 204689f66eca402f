package protocol

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Failure is what a vendor says when it fails, in whatever form it came.
type Failure struct {
	Status     int           // HTTP status; 0: none, for example an error inside a stream
	Codes      []string      // values of code and type, in any case
	Message    string        // the vendor's words, shown to people
	Body       string        // the rest of what it said; searched, not shown
	RetryAfter time.Duration // 0: not said
	RequestID  string
}

// ParseFailure reads the error objects that vendors send: {"error":{"message","code","type","status"}},
// {"error":"text"}, {"object":"error","message"}, {"type":"error","error":{…}}, {"message"}, {"detail"}. ok is false when
// body holds none of them.
func ParseFailure(body []byte) (f Failure, ok bool) {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		// A few vendors wrap the object in a list.
		var list []json.RawMessage
		if json.Unmarshal(body, &list) != nil || len(list) != 1 || json.Unmarshal(list[0], &outer) != nil {
			return f, false
		}
	}
	f.Body = string(body)
	text := func(raw json.RawMessage) string {
		var s string
		_ = json.Unmarshal(raw, &s) // not text: no text
		return s
	}
	take := func(m map[string]json.RawMessage) {
		for _, k := range []string{"code", "type", "status"} {
			if s := text(m[k]); s != "" {
				f.Codes = append(f.Codes, strings.ToLower(s))
			}
			if n, err := strconv.Atoi(string(m[k])); err == nil && n >= 100 && n < 600 {
				f.Status = n
			}
		}
		for _, k := range []string{"message", "detail", "error"} {
			if f.Message == "" {
				f.Message = text(m[k])
			}
		}
	}
	raw, has := outer["error"]
	has = has && string(raw) != "null"
	if has {
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) == nil {
			take(inner)
			f.retryInfo(inner["details"])
			if len(f.Codes) == 0 && text(outer["code"]) != "" {
				f.Codes = append(f.Codes, strings.ToLower(text(outer["code"])))
			}
		} else {
			f.Message = text(raw)
			delete(outer, "error")
			take(outer)
		}
		return f, true
	}
	if text(outer["object"]) == "error" || text(outer["type"]) == "error" || outer["message"] != nil || outer["detail"] != nil {
		take(outer)
		return f, true
	}
	return Failure{}, false
}

// retryInfo finds the delay in Google's error details.
func (f *Failure) retryInfo(details json.RawMessage) {
	var list []struct {
		Delay string `json:"retryDelay"`
	}
	if json.Unmarshal(details, &list) != nil {
		return
	}
	for _, d := range list {
		if t, err := time.ParseDuration(d.Delay); err == nil && t > 0 {
			f.RetryAfter = t
		}
	}
}

var overflowTexts = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`prompt is too long`, `prompt too long`, `input is too long for requested model`, `exceeds the context window`,
	`exceeds (?:the )?(?:model'?s? )?maximum context length`, `input token count.*exceeds the maximum`,
	`tokens in request more than max tokens allowed`, `maximum prompt length is \d+`, `reduce the length of the messages`,
	`maximum context length (?:is|of) \d+`, `exceeds (?:the )?maximum allowed input length of [\d,]+`,
	`input \([\d,]+ tokens\) is longer than the model'?s context length`, `exceeds the limit of \d+`,
	`exceeds the available context size`, `greater than the context length`, `context window exceeds limit`,
	`exceeded model token limit`, `context[_ ]length[_ ]exceeded`, `context length is only \d+ tokens`,
	`input length.*exceeds.*context length`, `exceeded (?:max )?context length`, `too large for model with \d+ maximum context length`,
	`prompt has [\d,]+ tokens, but the configured context size is`, `too many tokens`, `token limit exceeded`,
	`range of input length should be`, `input too long: \d+ input tokens`, `no user query found in messages`, `^\s*400 \(no body\)\s*$`,
}, `|`))

var (
	overflowNot  = regexp.MustCompile(`(?i)^\s*(?:throttling error:|service unavailable:)|rate limit|too many requests`)
	tooLarge     = regexp.MustCompile(`(?i)request_too_large|request entity too large|payload too large|request too large`)
	contentTexts = regexp.MustCompile(`(?i)content[-_ ]?policy|content_filter|safety`)
	quotaTexts   = regexp.MustCompile(`(?i)insufficient[_ ]quota|quota[_ ]exceeded|exceeded your current quota`)
	rateTexts    = regexp.MustCompile(`(?i)rate increased too quickly|too many requests|rate[-_ ]?limit`)
	delayText    = regexp.MustCompile(`(?i)(?:try|retry)(?:ing)?(?: again)? (?:in|after) (\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?)\b`)
)

// Classify turns a failure into an error of the closed taxonomy. The order of its rules decides: the first that fits
// wins. Message and Next are for people; secrets must be out of them already.
func Classify(f Failure) *llm.Error {
	for i := range f.Codes {
		f.Codes[i] = strings.ToLower(f.Codes[i])
	}
	e := &llm.Error{Message: f.Message, Status: f.Status, RequestID: f.RequestID, RetryAfter: f.RetryAfter}
	if e.RetryAfter == 0 {
		e.RetryAfter = delayIn(f.Message)
	}
	e.Code = f.code()
	switch e.Code {
	case llm.ErrRateLimit, llm.ErrProviderInternal, llm.ErrOverloaded:
		e.Retryable = true
	case llm.ErrQuotaExceeded:
		e.Next = "check the plan and the billing of the account that the key belongs to, or use another provider"
	case llm.ErrAuthentication:
		e.Next = "check the key of the provider's block"
		if f.Status == 403 {
			e.Next = "check what the key of the provider's block is allowed to do"
		}
	}
	if e.Message == "" {
		e.Message = defaultMessage(e.Code, f)
	}
	return e
}

func defaultMessage(code llm.ErrorCode, f Failure) string {
	switch {
	case code == llm.ErrContentPolicy:
		return "the vendor refused the request under its content policy"
	case f.Status != 0:
		return "the vendor answered with status " + strconv.Itoa(f.Status)
	case len(f.Codes) > 0:
		return "the vendor answered with the error " + f.Codes[0]
	}
	return "the vendor answered with an error that says nothing"
}

func (f *Failure) has(codes ...string) bool {
	for _, c := range f.Codes {
		for _, want := range codes {
			if c == want {
				return true
			}
		}
	}
	return false
}

func (f *Failure) hasPart(parts ...string) bool {
	for _, c := range f.Codes {
		for _, p := range parts {
			if strings.Contains(c, p) {
				return true
			}
		}
	}
	return false
}

func (f *Failure) code() llm.ErrorCode {
	text := f.Message + "\n" + f.Body
	matches := func(re *regexp.Regexp) bool { return re.MatchString(f.Message) || re.MatchString(f.Body) }
	clientSide := f.Status == 0 || f.Status >= 400 && f.Status < 500
	overflow := matches(overflowTexts) && !overflowNot.MatchString(text)
	switch {
	case clientSide && (f.has("context_length_exceeded", "model_context_window_exceeded") || overflow),
		// Ollama cuts a long prompt until no user message is left.
		f.Status == 500 && strings.Contains(strings.ToLower(text), "no user query found in messages"):
		return llm.ErrContextOverflow
	case f.Status == 413 || matches(tooLarge):
		return llm.ErrPayloadTooLarge
	case matches(contentTexts) || f.has("cyber_policy", "bio_policy", "image_content_policy_violation"):
		return llm.ErrContentPolicy
	case f.has("insufficient_quota", "usage_not_included", "billing_error"), f.Status == 402, f.Status == 429 && matches(quotaTexts):
		return llm.ErrQuotaExceeded
	case f.Status == 401, f.Status == 403, f.has("authentication_error", "permission_error", "invalid_api_key"):
		return llm.ErrAuthentication
	case f.hasPart("rate_limit"), f.has("too_many_requests", "throttlingexception"), matches(rateTexts):
		return llm.ErrRateLimit
	case f.has("overloaded_error", "server_is_overloaded", "slow_down"), f.Status == 529:
		return llm.ErrOverloaded
	case f.has("api_error", "internal_error", "internalserverexception", "modelstreamerrorexception", "server_error",
		"serviceunavailableexception"), f.hasPart("exhausted", "unavailable"):
		return llm.ErrProviderInternal
	case f.Status == 429:
		return llm.ErrRateLimit
	case f.Status == 408, f.Status == 409, f.Status >= 500:
		return llm.ErrProviderInternal
	case f.has("invalid_prompt", "invalid_request_error", "validationexception"):
		return llm.ErrInvalidRequest
	case f.Status == 400, f.Status == 404, f.Status == 422:
		return llm.ErrInvalidRequest
	}
	return llm.ErrUnknown
}

// delayIn finds "try again in 11.054s" in a message.
func delayIn(message string) time.Duration {
	m := delayText.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n > 1e6 {
		return 0
	}
	unit := time.Second
	switch {
	case strings.HasPrefix(strings.ToLower(m[2]), "ms"), strings.HasPrefix(strings.ToLower(m[2]), "milli"):
		unit = time.Millisecond
	case strings.HasPrefix(strings.ToLower(m[2]), "m"):
		unit = time.Minute
	}
	return time.Duration(n * float64(unit))
}
