package protocol

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Patterns of messages about prompts that are too long. Some vendors send them with statuses other than 4xx: those that mention
// the prompt or the context are recognized with any status; the others would be ambiguous there.
var (
	overflowTexts = texts(
		`prompt is too long`, `prompt too long`, `input is too long for requested model`, `exceeds the context window`,
		`exceeds (?:the )?(?:model'?s? )?maximum context length`, `input token count.*exceeds the maximum`,
		`tokens in request more than max tokens allowed`, `maximum prompt length is \d+`, `maximum context length (?:is|of) \d+`,
		`exceeds (?:the )?maximum allowed input length of [\d,]+`,
		`input \([\d,]+ tokens\) is longer than the model'?s context length`, `exceeds the available context size`,
		`greater than the context length`, `context window exceeds limit`, `exceeded model token limit`,
		`context[_ ]length[_ ]exceeded`, `context length is only \d+ tokens`, `input length.*exceeds.*context length`,
		`exceeded (?:max )?context length`, `too large for model with \d+ maximum context length`,
		`prompt has [\d,]+ tokens, but the configured context size is`, `range of input length should be`,
		`input too long: \d+ input tokens`, `exceed context limit: \d+`,
		`no user query found in messages`, // Ollama truncates a long prompt until it contains no user message
	)
	vagueOverflowTexts = texts(
		`reduce the length of the messages`, `exceeds the limit of \d+`, `too many tokens`, `token limit exceeded`,
		`^\s*400 \(no body\)\s*$`,
	)
	overflowNot  = texts(`^\s*(?:throttling error:|service unavailable:)`, `rate limit`, `too many requests`)
	tooLarge     = texts(`request_too_large`, `request entity too large`, `payload too large`, `request too large`)
	contentTexts = texts(`content[-_ ]?policy`, `content_filter`, `content filtering`, `(?:\b|_)safety\b`, `flagged_input`, `our usage polic`,
		`content exists risk`)
	quotaTexts = texts(`insufficient[_ ]quota`, `quota[_ ]exceeded`, `exceeded your current quota`)
	// For a model that is not in the plan, Google reports a limit of 0.
	lastingTexts = texts(`per[-_ ]?day`, `daily`, `\blimit: 0\b`)
	// spentTexts say that the account has no credit left, with any status and code.
	spentTexts = texts(`credit balance is too low`, `reached your specified api usage limits`, `have any credits`)
	// hopelessTexts are permanent errors of local servers that have the status of a temporary one.
	hopelessTexts = texts(`requires more system memory`, `requires --jinja`)
	keyTexts      = texts(`api[_ ]key[_ ](?:not valid|invalid)`, `(?:invalid|incorrect) api key`)
	rateTexts     = texts(`rate increased too quickly`, `too many requests`, `rate[-_ ]?limit`)
)

// resets matches the time at which a usage limit is reset, in seconds since 1970.
var resets = regexp.MustCompile(`"resets_at"\s*:\s*(\d{9,11})\b`)

func texts(patterns ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)` + strings.Join(patterns, `|`))
}

// Classify converts a failure to an error with one of our codes. The first matching rule wins. Message and Next are shown to
// users, so the failure must not contain secrets.
func Classify(f Failure) *llm.Error {
	f.Codes = slices.Clone(f.Codes)
	for i, c := range f.Codes {
		f.Codes[i] = strings.ToLower(c)
	}
	if f.RetryAfter == 0 {
		if f.RetryAfter = delayIn(f.Message); f.RetryAfter == 0 {
			f.RetryAfter = delayIn(f.Body)
		}
	}
	e := &llm.Error{Code: f.meaning(), Message: f.Message, Status: f.Status, RequestID: f.RequestID}
	switch e.Code {
	case llm.ErrRateLimit, llm.ErrProviderInternal, llm.ErrOverloaded:
		e.Retryable, e.RetryAfter = true, f.RetryAfter
	case llm.ErrQuotaExceeded:
		e.Next = "check the plan and the billing of the account that the key belongs to, or use another provider"
		if m := resets.FindStringSubmatch(f.Body); m != nil {
			if at, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				e.Next = "ask again after " + time.Unix(at, 0).UTC().Format("2006-01-02 15:04 MST") + ", when the limit is reset, or use another provider"
			}
		}
	case llm.ErrAuthentication:
		e.Next = "check the key of the provider's block"
		if f.Status == 403 || f.has("permission_error") {
			e.Next = "check the permissions of the key in the provider's block"
		}
	}
	if strings.TrimSpace(e.Message) == "" {
		e.Message = defaultMessage(e.Code, f)
	}
	return e
}

const (
	answered = "the vendor answered with "
	silent   = answered + "an error without a message"
	filtered = "the vendor rejected the request because of its content policy"
)

func defaultMessage(code llm.ErrorCode, f Failure) string {
	switch {
	case code == llm.ErrContentPolicy:
		return filtered
	case f.Status != 0:
		return answered + "status " + strconv.Itoa(f.Status)
	case len(f.Codes) > 0:
		return answered + "the error " + f.Codes[0]
	}
	return silent
}

// Wordless reports whether [Classify] generated a message because the vendor sent none.
func Wordless(message string) bool {
	return message == filtered || message == silent || strings.HasPrefix(message, answered+"status ")
}

func (f *Failure) meaning() llm.ErrorCode {
	clientSide := f.Status == 0 || f.Status >= 400 && f.Status < 500
	switch {
	case clientSide && f.has("context_length_exceeded", "model_context_window_exceeded"), f.overflows(clientSide):
		return llm.ErrContextOverflow
	case f.Status == 413, f.says(tooLarge):
		return llm.ErrPayloadTooLarge
	case f.says(contentTexts), f.has("cyber_policy", "bio_policy", "image_content_policy_violation"):
		return llm.ErrContentPolicy
	case f.has("insufficient_quota", "usage_not_included", "usage_limit_reached", "billing_error", "servicequotaexceededexception"), f.Status == 402,
		f.overQuota(), clientSide && f.says(spentTexts):
		return llm.ErrQuotaExceeded
	case f.Status == 401, f.Status == 403, f.has("authentication_error", "permission_error", "invalid_api_key",
		"accessdeniedexception", "expiredtokenexception", "unrecognizedclientexception"),
		clientSide && f.says(keyTexts):
		return llm.ErrAuthentication
	case f.hasPart("rate_limit"), f.has("too_many_requests", "throttlingexception"), f.says(rateTexts):
		return llm.ErrRateLimit
	case f.has("overloaded_error", "server_is_overloaded", "slow_down"), f.Status == 529:
		return llm.ErrOverloaded
	case f.Status == 429: // before the codes below: Google calls a rate limit "exhausted"
		return llm.ErrRateLimit
	case f.says(hopelessTexts):
		return llm.ErrInvalidRequest
	case f.has("api_error", "internal_error", "internalserverexception", "modelstreamerrorexception", "server_error",
		"serviceunavailableexception", "timeout_error", "modelerrorexception", "modeltimeoutexception", "modelnotreadyexception"),
		f.hasPart("exhausted", "unavailable"):
		return llm.ErrProviderInternal
	case f.Status == 408, f.Status == 409, f.Status >= 500:
		return llm.ErrProviderInternal
	case f.has("invalid_prompt", "invalid_request_error", "validationexception", "not_found_error"), f.hasPart("image"),
		f.Status == 400, f.Status == 404, f.Status == 422:
		return llm.ErrInvalidRequest
	}
	return llm.ErrUnknown
}

// overflows reports whether the prompt is too long, according to any vendor's message.
func (f *Failure) overflows(clientSide bool) bool {
	if overflowNot.MatchString(f.Message) || overflowNot.MatchString(f.Body) {
		return false
	}
	// Token counts in a 429 or throttling error are those of a minute.
	perMinute := f.Status == 429 || f.has("throttlingexception")
	return f.says(overflowTexts) || clientSide && !perMinute && f.says(vagueOverflowTexts)
}

// overQuota distinguishes a spent quota from a rate limit with the same message, which has a retry delay. A daily quota has one
// too, but is not worth waiting for.
func (f *Failure) overQuota() bool {
	return f.Status == 429 && f.says(quotaTexts) && (f.RetryAfter == 0 || f.says(lastingTexts))
}

func (f *Failure) says(re *regexp.Regexp) bool {
	return re.MatchString(f.Message) || re.MatchString(f.Body)
}

func (f *Failure) has(codes ...string) bool {
	return slices.ContainsFunc(f.Codes, func(c string) bool { return slices.Contains(codes, c) })
}

func (f *Failure) hasPart(parts ...string) bool {
	return slices.ContainsFunc(f.Codes, func(c string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(c, p) })
	})
}
