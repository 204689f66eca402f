package route

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/redact"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	// maxRefusal limits the read body of an error: four times what is kept, because redacting can shorten it.
	maxRefusal = 4 * redact.MaxBody
	// refusalTimeout limits the wait for it. The status is known already, so a slow body is not worth more time.
	refusalTimeout = 10 * time.Second
)

// Fault is a failed request with details for logs, without secrets. It unwraps to its *[llm.Error].
type Fault struct {
	Err           *llm.Error
	URL           string
	Header        http.Header // of the response; nil: there was none
	Body          string      // of an error response, up to [redact.MaxBody] characters
	BodyTruncated bool
	Limits        map[string]Limit // rate limits, by what they count

	again   bool           // the same request may be retried here
	refused bool           // the credential was rejected with a 401
	asked   *time.Duration // delay that the vendor requested
}

// Error implements error.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the *[llm.Error].
func (f *Fault) Unwrap() error { return f.Err }

// wait returns the delay before the next attempt.
func (f *Fault) wait(backoff time.Duration) time.Duration {
	if f.asked != nil {
		return *f.asked
	}
	return backoff
}

// tooLong ends the attempts because the vendor requests a longer delay than permitted.
func (f *Fault) tooLong(now time.Time, delay, longest time.Duration) error {
	f.Err.Retryable = false
	f.Err.Message += fmt.Sprintf(" (requests a delay of %v, until %s, which exceeds the maximum of %v)",
		delay.Round(time.Second), now.Add(delay).UTC().Format("2006-01-02 15:04:05 MST"), longest)
	f.Err.Next = "try again then, or use another model or key"
	return f
}

// reason returns the fault on one line, for the announcement of the next attempt.
func (f *Fault) reason() string {
	line, _, _ := strings.Cut(f.Err.Error(), "\n")
	if s := f.Err.Status; s != 0 && !strings.Contains(line, fmt.Sprint(s)) {
		line = fmt.Sprintf("status %d: %s", s, line)
	}
	return line
}

func (a *answer) fault(e *llm.Error) *Fault { return &Fault{Err: e} }

// describe adds details from the headers of a response.
func (a *answer) describe(f *Fault, res *http.Response) {
	f.Header = http.Header{}
	for name, values := range res.Header {
		for _, v := range values {
			f.Header.Add(name, a.secrets.Header(name, v))
		}
	}
	f.Limits = rateLimits(res.Header, time.Now())
	f.Err.RequestID = cmp.Or(f.Err.RequestID, a.requestID(res.Header))
}

// requestID returns the ID of the request in the vendor's logs.
func (a *answer) requestID(h http.Header) string {
	for _, name := range []string{
		"X-Request-Id", "Request-Id", "X-Oai-Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Goog-Request-Id",
		"X-Generation-Id", "Cf-Ray",
	} {
		if id := h.Get(name); id != "" {
			return a.shown(id)
		}
	}
	return ""
}

// refused returns the fault for an error status, with or without a body.
func (a *answer) refused(ctx context.Context, out *Outgoing, res *http.Response, idle *idle) error {
	idle.limit = min(idle.limit, refusalTimeout)
	r := &received{answer: a, ctx: ctx, out: out, res: res, idle: idle}
	text := r.text(nil, nil)
	failure := r.failure(text)
	failure.Status = res.StatusCode
	if kind, _, _ := strings.Cut(res.Header.Get("X-Amzn-Errortype"), ":"); kind != "" { // AWS reports the type of error only here
		failure.Codes = append(failure.Codes, kind)
	}
	details := failure.RetryAfter
	failure.RetryAfter = 0 // so that the message precedes the details
	e := protocol.Classify(failure)
	f := r.fault(e)
	f.Body, f.BodyTruncated = clip(text)
	asked, ok := retryAfter(res.Header, time.Now())
	if !ok {
		if asked = cmp.Or(e.RetryAfter, details); asked == 0 && e.Code == llm.ErrRateLimit {
			asked, _ = untilReset(f.Limits)
		}
		ok = asked > 0
	}
	e.RetryAfter = asked
	if ok {
		f.asked = &asked
	}
	r.advise(f)
	f.refused = res.StatusCode == http.StatusUnauthorized
	switch res.StatusCode {
	case 400, 401, 403, 404, 413: // the same request would be rejected again
	default:
		f.again = e.Retryable
	}
	return f
}

// failure parses the redacted body of an error.
func (r *received) failure(text partial) protocol.Failure {
	failure, ok := protocol.ParseFailure([]byte(text.s))
	if !ok {
		failure = protocol.Failure{Body: text.s}
		plain := strings.TrimSpace(text.s)
		isText := !strings.HasPrefix(plain, "<") && !strings.HasPrefix(plain, "{")
		if isText && utf8.RuneCountInString(plain) <= redact.MaxInMessage {
			failure.Message = plain
		}
	}
	failure.Message = r.shown(failure.Message)
	failure.Body, _ = redact.Clip(failure.Body, redact.MaxBody)
	return failure
}

// advise adds a next step that follows from the status.
func (r *received) advise(f *Fault) {
	host := r.out.URL.Host
	switch s := r.res.StatusCode; {
	case s >= 300 && s < 400:
		f.Err.Code, f.Err.Retryable = llm.ErrInvalidRequest, false
		f.Err.Message = fmt.Sprintf("%s redirects requests to %s, which is not followed because it would receive the key", host,
			cmp.Or(r.secrets.URL(r.res.Header.Get("Location")), "nowhere"))
		f.Err.Next = "set base_url to the target address"
	case s == 404 && f.Err.Next == "":
		f.Err.Next = fmt.Sprintf("check the model's name and base_url; the request went to %s", f.URL)
	case s == 407: // for a request without TLS; with TLS, the tunnel is rejected
		f.Err.Code, f.Err.Message, f.Err.Next = llm.ErrTransport, "the proxy on the way to "+host+" requires a login", proxyLogin
	case s == 400 && r.out.URL.Scheme == "http" && wantsTLS.MatchString(f.Body):
		f.Err.Next = "write https:// in base_url"
	}
}

// wantsTLS matches servers' messages for requests without TLS.
var wantsTLS = regexp.MustCompile(`(?i)HTTP request (?:was sent )?to (?:an )?HTTPS (?:server|port)`)

// partial is a text that may be truncated.
type partial struct {
	s   string
	cut bool
}

func clip(p partial) (string, bool) {
	s, cut := redact.Clip(p.s, redact.MaxBody)
	return s, cut || p.cut
}

// text reads the rest of a body that is not a stream, up to a limit, and redacts it. head has already been read, with err. What
// arrives too late is ignored.
func (r *received) text(head []byte, err error) partial {
	buf := bytes.NewBuffer(bytes.Clone(head))
	p := make([]byte, 4<<10)
	deadline := time.Now().Add(refusalTimeout) // a body that trickles in is no better than none
	for err == nil && buf.Len() <= maxRefusal && time.Now().Before(deadline) {
		var n int
		n, err = r.next(p)
		buf.Write(p[:n])
	}
	raw := strings.ToValidUTF8(string(buf.Next(maxRefusal)), "\uFFFD")
	if err == io.EOF && buf.Len() == 0 {
		return partial{s: r.secrets.Text(raw)}
	}
	return partial{s: r.secrets.Partial(raw), cut: true}
}

// document returns the fault for a response with a success status that is not a stream.
func (r *received) document(head []byte, err error) error {
	r.idle.limit = min(r.idle.limit, refusalTimeout)
	text := r.text(head, err)
	label, _, _ := mime.ParseMediaType(r.res.Header.Get("Content-Type"))
	host, plain := r.out.URL.Host, strings.TrimSpace(strings.TrimPrefix(text.s, "\uFEFF"))
	var e *llm.Error
	failure, isError := protocol.ParseFailure([]byte(plain))
	switch {
	case isError:
		failure.Message = r.shown(failure.Message)
		e = protocol.Classify(failure)
	case strings.HasPrefix(plain, "{") || strings.HasPrefix(plain, "["):
		e = &llm.Error{
			Message: fmt.Sprintf("%s answered with a whole JSON document (%s) instead of a stream", host, cmp.Or(label, "unlabelled")),
			Next:    "check base_url and the protocol of the provider's block; a proxy between may not support streaming",
		}
	case strings.HasPrefix(plain, "<"):
		e = &llm.Error{
			Message: fmt.Sprintf("%s answered with a web page (%s) instead of a stream", host, cmp.Or(label, "unlabelled")),
			Next:    "check base_url, which may lack its path (/v1, say), and proxy: a login page looks like this",
		}
	default:
		e = &llm.Error{
			Message: fmt.Sprintf("%s answered with %s instead of a stream", host, cmp.Or(label, "something unlabelled")),
			Next:    "check base_url and the protocol of the provider's block",
		}
		if plain != "" && utf8.RuneCountInString(plain) <= redact.MaxInMessage {
			e.Message += ": " + r.shown(plain)
		}
	}
	if !isError {
		e.Code = llm.ErrInvalidOutput
	}
	f := r.fault(e)
	f.Body, f.BodyTruncated = clip(text)
	return f
}
