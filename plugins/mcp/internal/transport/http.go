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
	client := &http.Client{Transport: &trip{h: h, origin: u, next: next}}
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
}

// RoundTrip implements http.RoundTripper.
func (t *trip) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.origin.Scheme || !strings.EqualFold(req.URL.Host, t.origin.Host) {
		return nil, &OriginError{t.origin.Scheme + "://" + t.origin.Host, req.URL.Scheme + "://" + req.URL.Host}
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
		resp.Body = &events{body: resp.Body, r: bufio.NewReaderSize(resp.Body, pieceBytes), call: call, isCall: isCall}
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

// callID returns the ID of the call that a request sends.
func callID(req *http.Request) (id jsonrpc.ID, ok bool) {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return id, false
	}
	body, err := req.GetBody()
	if err != nil {
		return id, false
	}
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	if err != nil {
		return id, false
	}
	m, err := jsonrpc.DecodeMessage(b)
	r, isRequest := m.(*jsonrpc.Request)
	if err != nil || !isRequest || !r.IsCall() {
		return id, false
	}
	return r.ID, true
}

// rewriteBody captures the result in a body of one message.
func rewriteBody(resp *http.Response, call jsonrpc.ID) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxFrame+1))
	if err != nil {
		_ = resp.Body.Close()
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > MaxFrame {
		if body, err = jsonrpc.EncodeMessage(tooLarge(call, max(resp.ContentLength, MaxFrame+1))); err != nil {
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
	body   io.ReadCloser
	r      *bufio.Reader
	call   jsonrpc.ID
	isCall bool
	ready  bytes.Buffer
	err    error
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

// event reads the lines of one event.
func (e *events) event() error {
	var other, data bytes.Buffer
	size, lines := int64(0), 0
	for {
		line, full, err := e.line(MaxFrame - size)
		size += full
		text := strings.TrimRight(string(line), "\r\n")
		switch value, isData := strings.CutPrefix(text, "data:"); {
		case err != nil && !(errors.Is(err, io.EOF) && full > 0):
			return err // an event without an end is none
		case text == "" && full <= 2:
			if lines > 0 {
				e.ready.Write(other.Bytes())
				e.data(data.Bytes(), size)
			}
			e.ready.WriteByte('\n')
			return err
		case size > MaxFrame: // the rest is only counted
			other.Reset()
			data.Reset()
			lines = 1
		case isData:
			if lines++; lines > 1 {
				data.WriteByte('\n')
			}
			data.WriteString(strings.TrimPrefix(value, " "))
		default:
			other.WriteString(text + "\n")
		}
		if err != nil {
			return err
		}
	}
}

// data writes the data of an event.
func (e *events) data(data []byte, size int64) {
	if size > MaxFrame {
		if !e.isCall {
			return
		}
		b, err := jsonrpc.EncodeMessage(tooLarge(e.call, size))
		if err != nil {
			return
		}
		data = b
	}
	for line := range strings.Lines(string(captureMessage(data))) {
		e.ready.WriteString("data: " + strings.TrimRight(line, "\n") + "\n")
	}
}

// line reads a line, of which it keeps at most room bytes. full is its size.
func (e *events) line(room int64) (line []byte, full int64, err error) {
	for {
		piece, err := e.r.ReadSlice('\n')
		full += int64(len(piece))
		if full <= room {
			line = append(line, piece...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, full, err
		}
	}
}
