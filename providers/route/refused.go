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
	// maxRefusal bounds what is read of the body of an error. Four times what is kept: covering secrets can make it shorter.
	maxRefusal = 4 * redact.MaxBody
	// refusalTimeout bounds the wait for it. The status is known already; a body that doesn't come is not worth more.
	refusalTimeout = 10 * time.Second
)

// Fault is a failed request with what is known of it, for logs. Secrets are covered in all of it. It unwraps to its
// *[llm.Error].
type Fault struct {
	Err           *llm.Error
	URL           string
	Header        http.Header // of the answer; nil: there was none
	Body          string      // of the answer that refused, up to [redact.MaxBody] characters
	BodyTruncated bool
	Limits        map[string]Limit // rate limits, by what they count

	again   bool           // the same request may be tried again here
	refused bool           // the credential was: a 401
	asked   *time.Duration // delay that the vendor asked for
}

// Error implements error.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the *[llm.Error].
func (f *Fault) Unwrap() error { return f.Err }

// wait is the delay before the next try.
func (f *Fault) wait(backoff time.Duration) time.Duration {
	if f.asked != nil {
		return *f.asked
	}
	return backoff
}

// tooLong ends the tries because the vendor asks for more patience than there is.
func (f *Fault) tooLong(now time.Time, delay, longest time.Duration) error {
	f.Err.Retryable = false
	f.Err.Message += fmt.Sprintf(" (asks to wait %v, until %s; more than %v is not waited for)",
		delay.Round(time.Second), now.Add(delay).UTC().Format("2006-01-02 15:04:05 MST"), longest)
	f.Err.Next = "ask again then, or use another model or key"
	return f
}

// reason is the fault in one line, for the announcement of the next try.
func (f *Fault) reason() string {
	line, _, _ := strings.Cut(f.Err.Error(), "\n")
	if s := f.Err.Status; s != 0 && !strings.Contains(line, fmt.Sprint(s)) {
		line = fmt.Sprintf("status %d: %s", s, line)
	}
	return line
}

func (a *answer) fault(e *llm.Error) *Fault { return &Fault{Err: e} }

// describe adds what the head of an answer says.
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

// requestID is the id under which the vendor finds the request in its own logs.
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

// refused makes a fault of an answer that is none: a status that says so, with or without words.
func (a *answer) refused(ctx context.Context, out *Outgoing, res *http.Response, idle *idle) error {
	idle.limit = min(idle.limit, refusalTimeout)
	r := &received{answer: a, ctx: ctx, out: out, res: res, idle: idle}
	text := r.text(nil, nil)
	failure := r.failure(text)
	failure.Status = res.StatusCode
	if kind, _, _ := strings.Cut(res.Header.Get("X-Amzn-Errortype"), ":"); kind != "" { // AWS names the kind nowhere else
		failure.Codes = append(failure.Codes, kind)
	}
	details := failure.RetryAfter
	failure.RetryAfter = 0 // so that the words come before the details
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
	case 400, 401, 403, 404, 413: // the same again would be refused again
	default:
		f.again = e.Retryable
	}
	return f
}

// failure reads the body of an error, secrets covered already.
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

// advise says what to look at where the status alone tells.
func (r *received) advise(f *Fault) {
	host := r.out.URL.Host
	switch s := r.res.StatusCode; {
	case s >= 300 && s < 400:
		f.Err.Code, f.Err.Retryable = llm.ErrInvalidRequest, false
		f.Err.Message = fmt.Sprintf("%s sends requests on to %s, which is not followed: the key would go there", host,
			cmp.Or(r.secrets.URL(r.res.Header.Get("Location")), "nowhere"))
		f.Err.Next = "set base_url to the address that answers"
	case s == 404 && f.Err.Next == "":
		f.Err.Next = fmt.Sprintf("check the model's name and base_url; the request went to %s", f.URL)
	case s == 407: // of a request without TLS; with TLS the refusal is that of the tunnel
		f.Err.Code, f.Err.Message, f.Err.Next = llm.ErrTransport, "the proxy on the way to "+host+" wants a login", proxyLogin
	case s == 400 && r.out.URL.Scheme == "http" && wantsTLS.MatchString(f.Body):
		f.Err.Next = "write https:// in base_url"
	}
}

// wantsTLS is what servers say to a request without it.
var wantsTLS = regexp.MustCompile(`(?i)HTTP request (?:was sent )?to (?:an )?HTTPS (?:server|port)`)

// partial is a text that was read of a body.
type partial struct {
	s   string
	cut bool
}

func clip(p partial) (string, bool) {
	s, cut := redact.Clip(p.s, redact.MaxBody)
	return s, cut || p.cut
}

// text reads the rest of a body that is no stream, within bounds, and covers its secrets. head has been read already, with
// err. What doesn't come in time is left out.
func (r *received) text(head []byte, err error) partial {
	buf := bytes.NewBuffer(bytes.Clone(head))
	p := make([]byte, 4<<10)
	deadline := time.Now().Add(refusalTimeout) // a body that drips is no better than a silent one
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

// document makes a fault of an answer that says it is well and is no stream.
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
