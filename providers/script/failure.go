package script

import (
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// taxonomy contains the defaults of a failure: whether retrying may help, the usual HTTP status, and a message.
var taxonomy = map[llm.ErrorCode]struct {
	retryable bool
	status    int
	message   string
}{
	llm.ErrUnknown:          {false, 0, "the vendor answered something unknown"},
	llm.ErrInvalidRequest:   {false, 400, "the request is not valid"},
	llm.ErrContextOverflow:  {false, 400, "the prompt is longer than the context window"},
	llm.ErrPayloadTooLarge:  {false, 413, "the request is too large"},
	llm.ErrNoRoute:          {false, 0, "no route to this model"},
	llm.ErrAuthentication:   {false, 401, "the credentials were not accepted"},
	llm.ErrRateLimit:        {true, 429, "too many requests"},
	llm.ErrQuotaExceeded:    {false, 429, "the quota is used up"},
	llm.ErrContentPolicy:    {false, 400, "refused by the content policy"},
	llm.ErrProviderInternal: {true, 500, "internal error of the vendor"},
	llm.ErrTransport:        {true, 0, "connection refused"},
	llm.ErrInvalidOutput:    {false, 0, "the vendor's answer makes no sense"},
	llm.ErrIncompleteStream: {true, 0, "the stream ended before the answer was complete"},
	llm.ErrOverloaded:       {false, 503, "the servers are overloaded"},
}

func errorCode(name string) (llm.ErrorCode, error) {
	var code llm.ErrorCode
	if err := code.UnmarshalText([]byte(name)); err != nil {
		var names []string
		for c := llm.ErrUnknown; c <= llm.ErrOverloaded; c++ {
			names = append(names, c.String())
		}
		return 0, fmt.Errorf("unknown error code %q; codes are %s", name, strings.Join(names, ", "))
	}
	return code, nil
}

func failureOf(code llm.ErrorCode) *llm.Error {
	t := taxonomy[code]
	return &llm.Error{Code: code, Message: t.message, Retryable: t.retryable, Status: t.status}
}

// refusal returns the error for a script that cannot respond, which is not retried.
func refusal(next, format string, args ...any) *llm.Error {
	return &llm.Error{Code: llm.ErrInvalidRequest, Message: fmt.Sprintf(format, args...), Next: next}
}
