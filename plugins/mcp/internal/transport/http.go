package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// HTTP is a transport to an address.
type HTTP struct {
	URL       string
	SSE       bool              // the transport of version 2024-11-05 of the protocol; false: streamable HTTP
	Transport http.RoundTripper // how requests leave; nil: http.DefaultTransport
	UserAgent string
	Header    http.Header       // added to each request
	OAuth     auth.OAuthHandler // provides the tokens of requests, and new ones if they are refused; nil: none
	Context   context.Context   // requests end with it; nil: only with their own contexts
}

// New returns the transport. Requests go to the origin of URL only, so that its headers do not leave it.
func (h HTTP) New() (mcp.Transport, error) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the url %q is not an address such as https://example.com/mcp", h.URL)
	}
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	client := &http.Client{Transport: &trip{h: h, origin: u, next: next, flow: &flow{}}}
	if h.SSE {
		return &mcp.SSEClientTransport{Endpoint: h.URL, HTTPClient: client, MaxEventSize: 4 * MaxFrame}, nil
	}
	// Captured results are longer than what arrives, which is bounded here.
	return &mcp.StreamableClientTransport{Endpoint: h.URL, HTTPClient: client, MaxEventSize: 4 * MaxFrame}, nil
}

// StatusError is an answer that is not a message of the protocol.
type StatusError struct {
	Code      int    // HTTP status
	MediaType string // of the answer; may be empty
	Excerpt   string // beginning of the answer as text; may be empty
	Session   bool   // the request named a session
	Challenge string // the header WWW-Authenticate
	After     string // the header Retry-After
}

// Error implements error.
func (e *StatusError) Error() string {
	switch {
	case e.Code < 300 && e.MediaType != "":
		return fmt.Sprintf("it answered with %s instead of JSON", e.MediaType)
	case e.Code < 300:
		return "it answered with nothing instead of JSON"
	}
	s := fmt.Sprintf("it answered with HTTP %d %s", e.Code, http.StatusText(e.Code))
	if e.After != "" {
		s += ", to be tried again after " + e.After
	}
	return s
}

// OriginError says that a request would have gone to another origin than the configured one.
type OriginError struct{ Configured, Other string }

// Error implements error.
func (e *OriginError) Error() string {
	return fmt.Sprintf("it refers to %s, but only %s is configured", e.Other, e.Configured)
}

const excerptBytes = 300

// trip is an http.RoundTripper that adds headers and tokens, and turns what arrives into messages that the SDK accepts. The SDK adds
// tokens to one of its transports only.
type trip struct {
	h      HTTP
	origin *url.URL
	next   http.RoundTripper
	flow   *flow
}

// RoundTrip implements http.RoundTripper.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.origin.Scheme || !strings.EqualFold(req.URL.Host, t.origin.Host) {
		return nil, &OriginError{t.origin.Scheme + "://" + t.origin.Host, req.URL.Scheme + "://" + req.URL.Host}
	}
	if m, ok := sentMessage(req); ok {
		if !t.flow.sent(m) {
			_ = req.Body.Close()
			return &http.Response{StatusCode: http.StatusAccepted, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
		}
		defer t.flow.answered(m) // the server may be slow to take it
	}
	sent, resp, err := t.send(req)
	if err != nil || !t.refusesToken(resp) {
		return resp, err
	}
	if req.Method == http.MethodPost && req.GetBody != nil || t.h.SSE && req.Method == http.MethodGet {
		if err := t.h.OAuth.Authorize(req.Context(), sent, resp); err != nil {
			_ = resp.Body.Close()
			return nil, err
		}
		_ = resp.Body.Close()
		again := req.Clone(req.Context())
		if req.GetBody != nil {
			if again.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		if sent, resp, err = t.send(again); err != nil || !t.refusesToken(resp) {
			return resp, err
		}
	} else if !t.h.SSE {
		return resp, nil // the SDK can do without its answer
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return t.refused(sent, resp, mediaType)
}

// refusesToken reports whether another token may help.
func (t *trip) refusesToken(resp *http.Response) bool {
	return t.h.OAuth != nil && (resp.StatusCode == http.StatusUnauthorized ||
		resp.StatusCode == http.StatusForbidden && strings.Contains(resp.Header.Get("WWW-Authenticate"), "insufficient_scope"))
}

// authorize adds a token, if there is one.
func (t *trip) authorize(req *http.Request) error {
	if t.h.OAuth == nil {
		return nil
	}
	source, err := t.h.OAuth.TokenSource(req.Context())
	if err != nil || source == nil {
		return err
	}
	token, err := source.Token()
	if err != nil {
		return err
	}
	token.SetAuthHeader(req)
	return nil
}

// send sends a request once. It returns the request as it was sent, and answers that refuse the token as they are.
func (t *trip) send(req *http.Request) (*http.Request, *http.Response, error) {
	req = req.Clone(req.Context())
	if err := t.authorize(req); err != nil {
		return req, nil, err
	}
	resp, err := t.exchange(req)
	return req, resp, err
}

func (t *trip) exchange(req *http.Request) (*http.Response, error) {
	if t.h.UserAgent != "" {
		req.Header.Set("User-Agent", t.h.UserAgent)
	}
	for name, values := range t.h.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	call, isCall := callID(req)
	stream := t.h.SSE && req.Method == http.MethodGet
	ctx, cancel := context.WithCancel(req.Context())
	connected := func() bool { return true }
	if stream { // the SDK asks for it with a context that lasts only until the connection has been made
		cancel()
		ctx, cancel = context.WithCancel(context.WithoutCancel(req.Context()))
		connected = context.AfterFunc(req.Context(), cancel)
	}
	if t.h.Context != nil {
		stop := context.AfterFunc(t.h.Context, cancel)
		end := cancel
		cancel = func() { stop(); end() }
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	connected()
	resp.Body = &ending{resp.Body, cancel}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	ok := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case ok && mediaType == "text/event-stream":
		resp.Body = &events{body: resp.Body, r: bufio.NewReaderSize(resp.Body, pieceBytes), call: call, isCall: isCall, flow: t.flow, ctx: ctx}
	case ok && isCall && !t.h.SSE && mediaType == "application/json":
		return resp, rewriteBody(resp, call)
	case ok && isCall && !t.h.SSE:
		return nil, t.status(req, resp, mediaType)
	case ok, resp.StatusCode >= 300 && resp.StatusCode < 400:
	case req.Method == http.MethodGet && !t.h.SSE, req.Method == http.MethodDelete: // the SDK can do without both
	case t.refusesToken(resp):
	default:
		return t.refused(req, resp, mediaType)
	}
	return resp, nil
}

// ending is a body that ends the request's context when it is closed.
type ending struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// refused handles an answer with an error. If its body is an error of the protocol, the call gets that one.
func (t *trip) refused(req *http.Request, resp *http.Response, mediaType string) (*http.Response, error) {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	var message struct {
		Version string          `json:"jsonrpc"`
		Error   json.RawMessage `json:"error"`
	}
	missing := resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != ""
	if !missing && json.Unmarshal(body, &message) == nil && message.Version == "2.0" && len(message.Error) > 0 {
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp, nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil, t.status(req, resp, mediaType)
}

func (t *trip) status(req *http.Request, resp *http.Response, mediaType string) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, excerptBytes))
	_ = resp.Body.Close()
	return &StatusError{
		Code: resp.StatusCode, MediaType: mediaType, Excerpt: strings.ToValidUTF8(string(body), ""), Session: req.Header.Get("Mcp-Session-Id") != "",
		Challenge: resp.Header.Get("WWW-Authenticate"), After: resp.Header.Get("Retry-After"),
	}
}

// sentMessage returns the message that a request sends.
func sentMessage(req *http.Request) (jsonrpc.Message, bool) {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, false
	}
	m, err := jsonrpc.DecodeMessage(b)
	return m, err == nil
}

// callID returns the ID of the call that a request sends.
func callID(req *http.Request) (id jsonrpc.ID, ok bool) {
	m, _ := sentMessage(req)
	if r, isRequest := m.(*jsonrpc.Request); isRequest && r.IsCall() {
		return r.ID, true
	}
	return id, false
}

// rewriteBody captures the result in a body of one message.
func rewriteBody(resp *http.Response, call jsonrpc.ID) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxFrame+1))
	if err != nil {
		_ = resp.Body.Close()
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > MaxFrame {
		if body, err = jsonrpc.EncodeMessage(tooLarge(call)); err != nil {
			return err
		}
	}
	_ = resp.Body.Close()
	body = captureMessage(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// events rewrites the messages in a stream of events.
type events struct {
	body    io.ReadCloser
	r       *bufio.Reader
	call    jsonrpc.ID
	isCall  bool
	ready   bytes.Buffer
	err     error
	drops   int64 // bytes so far of an event that is too large; 0: the next event begins
	flow    *flow
	ctx     context.Context // ends when the body is closed
	waits   <-chan struct{} // nothing more is read before it is closed; nil: it is
	notices int             // notifications since the last pause
	inLine  bool            // whether the next byte of it is within a line
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.ready.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.event()
	}
	return e.ready.Read(p)
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }

// errTooLarge says that an event is too large.
var errTooLarge = errors.New("the event is too large")

// event reads the lines of one event. A call whose answer is too large gets an error at once; the rest of the event is dropped.
func (e *events) event() error {
	if e.waits != nil {
		select {
		case <-e.waits:
			e.waits = nil
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	if e.drops > 0 {
		return e.drop()
	}
	var other, data bytes.Buffer
	size, lines := 0, 0
	for {
		line, err := e.line(MaxFrame - size)
		if errors.Is(err, errTooLarge) {
			e.drops = int64(size) + 1
			return e.tooLarge()
		}
		if err != nil {
			return err // an event without an end is none
		}
		size += len(line)
		text := strings.TrimRight(string(line), "\r\n")
		switch value, isData := strings.CutPrefix(text, "data:"); {
		case text == "":
			if lines > 0 {
				return e.message(other.Bytes(), data.Bytes())
			}
			e.ready.WriteByte('\n')
			return nil
		case isData:
			if lines++; lines > 1 {
				data.WriteByte('\n')
			}
			data.WriteString(strings.TrimPrefix(value, " "))
		default:
			other.WriteString(text + "\n")
		}
	}
}

// message writes an event with a message.
func (e *events) message(other, data []byte) error {
	m, err := jsonrpc.DecodeMessage(data)
	r, ok := m.(*jsonrpc.Request)
	if err == nil && ok {
		if err := e.flow.admit(r); err != nil {
			return err
		}
		if data, err = jsonrpc.EncodeMessage(r); err != nil {
			return err
		}
	}
	e.ready.Write(other)
	e.data(data)
	e.ready.WriteByte('\n')
	if err != nil || !ok || r.IsCall() {
		return nil
	}
	if e.notices++; e.notices < maxNotices {
		return nil
	}
	e.notices = 0
	ping, done, err := e.flow.pause()
	if err != nil {
		return err
	}
	b, err := jsonrpc.EncodeMessage(ping)
	if err != nil {
		return err
	}
	e.data(b)
	e.ready.WriteByte('\n')
	e.waits = done
	return nil
}

// data writes the data of an event.
func (e *events) data(data []byte) {
	for line := range strings.Lines(string(captureMessage(data))) {
		e.ready.WriteString("data: " + strings.TrimRight(line, "\n") + "\n")
	}
}

// tooLarge writes an event in place of one that is too large.
func (e *events) tooLarge() error {
	if !e.isCall {
		return nil
	}
	b, err := jsonrpc.EncodeMessage(tooLarge(e.call))
	if err != nil {
		return err
	}
	e.data(b)
	e.ready.WriteByte('\n')
	return nil
}

// drop reads the rest of an event.
func (e *events) drop() error {
	for {
		piece, err := e.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		switch e.drops += int64(len(piece)); {
		case err != nil && !full:
			return err
		case e.drops > maxLine:
			return fmt.Errorf("the server has sent an event of more than %d bytes", maxLine)
		case !e.inLine && !full && strings.TrimRight(string(piece), "\r\n") == "":
			e.drops = 0
			return nil
		}
		e.inLine = full
	}
}

// line reads a line of at most room bytes.
func (e *events) line(room int) (line []byte, err error) {
	for {
		piece, err := e.r.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if len(line)+len(piece) > room {
			e.inLine = full
			return nil, errTooLarge
		}
		line = append(line, piece...)
		if !full {
			return line, err
		}
	}
}
