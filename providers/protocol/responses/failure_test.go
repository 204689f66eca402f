package responses_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/providers/protocol/responses"
	"github.com/gantry-agent/gantry/providers/protocoltest"
	"github.com/gantry-agent/gantry/sdk/llm"
)

func failure(t *testing.T, stream []byte) *llm.Error {
	t.Helper()
	events := protocoltest.Events(t, responses.Protocol{}, request(), stream)
	e, ok := events[len(events)-1].(*llm.Error)
	if !ok {
		t.Fatalf("the answer is no failure: %s", protocoltest.Render("openai", events))
	}
	return e
}

func TestCodesOfFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code  string
		want  llm.ErrorCode
		again bool
	}{
		{"server_error", llm.ErrProviderInternal, true},
		{"rate_limit_exceeded", llm.ErrRateLimit, true},
		{"server_is_overloaded", llm.ErrOverloaded, true},
		{"slow_down", llm.ErrOverloaded, true},
		{"vector_store_timeout", llm.ErrProviderInternal, true},
		{"context_length_exceeded", llm.ErrContextOverflow, false},
		{"insufficient_quota", llm.ErrQuotaExceeded, false},
		{"usage_not_included", llm.ErrQuotaExceeded, false},
		{"cyber_policy", llm.ErrContentPolicy, false},
		{"bio_policy", llm.ErrContentPolicy, false},
		{"image_content_policy_violation", llm.ErrContentPolicy, false},
		{"invalid_prompt", llm.ErrInvalidRequest, false},
		{"data_residency_mismatch", llm.ErrInvalidRequest, false},
		{"invalid_image", llm.ErrInvalidRequest, false},
		{"invalid_image_format", llm.ErrInvalidRequest, false},
		{"invalid_base64_image", llm.ErrInvalidRequest, false},
		{"invalid_image_url", llm.ErrInvalidRequest, false},
		{"image_too_large", llm.ErrInvalidRequest, false},
		{"image_too_small", llm.ErrInvalidRequest, false},
		{"image_parse_error", llm.ErrInvalidRequest, false},
		{"invalid_image_mode", llm.ErrInvalidRequest, false},
		{"image_file_too_large", llm.ErrInvalidRequest, false},
		{"unsupported_image_media_type", llm.ErrInvalidRequest, false},
		{"empty_image_file", llm.ErrInvalidRequest, false},
		{"failed_to_download_image", llm.ErrInvalidRequest, false},
		{"image_file_not_found", llm.ErrInvalidRequest, false},
		{"never_heard_of", llm.ErrUnknown, false},
	} {
		t.Run(tc.code, func(t *testing.T) {
			t.Parallel()
			// The socket stays open in both cases: what comes after is never asked for.
			inAnswer := failure(t, stream(fmt.Sprintf(`{"type":"response.failed","response":{"id":"resp_1","status":"failed","instructions":"mind the safety of content policy","error":{"code":%q,"message":"It broke."}}}`, tc.code), `junk`))
			outside := failure(t, stream(fmt.Sprintf(`{"type":"error","code":%q,"message":"It broke.","param":null,"sequence_number":3}`, tc.code), `junk`))
			for _, e := range []*llm.Error{inAnswer, outside} {
				if e.Code != tc.want || e.Retryable != tc.again {
					t.Errorf("code %v, retryable %v; want %v, %v", e.Code, e.Retryable, tc.want, tc.again)
				}
				if want := tc.code + ": It broke."; e.Message != want {
					t.Errorf("message %q, want %q", e.Message, want)
				}
			}
		})
	}
}

func TestShapesOfFailures(t *testing.T) {
	t.Parallel()
	const rate = `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in %s."}}}`
	for _, tc := range []struct {
		name, stream string
		code         llm.ErrorCode
		message      string
		after        time.Duration
	}{
		{"a delay in fractions", string(stream(fmt.Sprintf(rate, "11.054s"))), llm.ErrRateLimit, "try again", 11054 * time.Millisecond},
		{"a delay in seconds", string(stream(fmt.Sprintf(rate, "35 seconds"))), llm.ErrRateLimit, "try again", 35 * time.Second},
		{"a delay in milliseconds", string(stream(fmt.Sprintf(rate, "28ms"))), llm.ErrRateLimit, "try again", 28 * time.Millisecond},
		{"a policy without words", string(stream(`{"type":"response.failed","response":{"error":{"code":"cyber_policy","message":" "}}}`)), llm.ErrContentPolicy, "content policy", 0},
		{"no error in the failure", string(stream(`{"type":"response.failed","response":{"error":null}}`)), llm.ErrProviderInternal, "without giving a reason", 0},
		{"an error inside the error frame", string(stream(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Too long."}}`)), llm.ErrContextOverflow, "context_length_exceeded: Too long.", 0},
		{"a frame that is nothing but an error", string(nameless(`{"error":{"type":"server_error","message":"Oh."}}`)), llm.ErrProviderInternal, "server_error: Oh.", 0},
		{"an error as text", string(nameless(`{"error":"the prompt is too long"}`)), llm.ErrContextOverflow, "the prompt is too long", 0},
		{"an error frame returned no code", string(stream(`{"type":"error","message":"Oh."}`)), llm.ErrUnknown, "Oh.", 0},
		{"a status for a code", string(nameless(`{"error":{"code":429,"message":"Slowly."}}`)), llm.ErrRateLimit, "Slowly.", 0},
		{"an error event that is no JSON", "event: error\ndata: upstream went away\n\n", llm.ErrUnknown, "upstream went away", 0},
		{"an overflow by its words", string(stream(`{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"Your input exceeds the context window of this model."}}}`)), llm.ErrContextOverflow, "invalid_prompt: Your", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := failure(t, []byte(tc.stream))
			if e.Code != tc.code || !strings.Contains(e.Message, tc.message) || strings.HasPrefix(e.Message, "error:") || e.RetryAfter.Round(time.Microsecond) != tc.after {
				t.Errorf("%v %q after %v; want %v %q after %v", e.Code, e.Message, e.RetryAfter, tc.code, tc.message, tc.after)
			}
		})
	}
}

func TestAnErrorThatIsEmptyIsNone(t *testing.T) {
	t.Parallel()
	got := protocoltest.Run(t, responses.Protocol{}, request(), nameless(`{"error":null}`, `{"error":{}}`, `{"error":""}`, done))
	if want := `S+(id=resp_1)` + doneStop; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
