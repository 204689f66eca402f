// Package ollamahost queries an Ollama server: which models it has, and the size of their context.
//
// It owns the address, the requests, and the connection timeout. It does not know how to chat with a model, or the meaning of the
// responses, which is in package ollama.
//
// Start with [New].
package ollamahost

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	// connectTimeout limits the time for connecting, as in codex 0.169.
	connectTimeout = 5 * time.Second
	// maxAnswer limits a response. Descriptions of models contain licences and chat templates.
	maxAnswer = 16 << 20
)

// Client is a client for one server. It is safe for concurrent use.
type Client struct {
	base string // without "/v1"
	http *http.Client
	own  *http.Transport // nil: the caller's client is used
}

// New returns a client for the server at base, with or without a trailing "/v1". client may be nil; otherwise it adds the key if
// the server needs one. New sends no request.
func New(base string, client *http.Client) (*Client, error) {
	address, err := normalised(base)
	if err != nil {
		return nil, err
	}
	c := &Client{base: strings.TrimSuffix(address, "/v1"), http: client}
	if client == nil {
		c.own = http.DefaultTransport.(*http.Transport).Clone()
		c.own.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
		c.http = &http.Client{Transport: c.own}
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() error {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
	return nil
}

// Models lists the server's models.
func (c *Client) Models(ctx context.Context) ([]ollama.Installed, error) {
	body, err := c.ask(ctx, http.MethodGet, "/api/tags", nil)
	if err != nil {
		return nil, err
	}
	models, err := ollama.ParseTags(body)
	return models, c.garbled("/api/tags", err)
}

// Show describes one of the server's models.
func (c *Client) Show(ctx context.Context, model string) (ollama.Details, error) {
	body, err := c.ask(ctx, http.MethodPost, "/api/show", map[string]any{"model": model})
	if err != nil {
		return ollama.Details{}, withNext(err, http.StatusNotFound, "fetch the model: ollama pull "+model)
	}
	details, err := ollama.ParseShow(body)
	return details, c.garbled("/api/show", err)
}

// Loaded returns how a model is loaded. ok is false if it is not loaded yet, which the first request does.
func (c *Client) Loaded(ctx context.Context, model string) (_ ollama.Loaded, ok bool, _ error) {
	body, err := c.ask(ctx, http.MethodGet, "/api/ps", nil)
	if err != nil {
		return ollama.Loaded{}, false, err
	}
	list, err := ollama.ParseRunning(body)
	if err != nil {
		return ollama.Loaded{}, false, c.garbled("/api/ps", err)
	}
	for _, l := range list {
		if ollama.SameModel(l.Name, model) {
			return l, true, nil
		}
	}
	return ollama.Loaded{}, false, nil
}

// ask sends a request and returns the response.
func (c *Client) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request to %s: %w", path, err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, fmt.Errorf("request to %s: %w", path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		failure, ok := protocol.ParseFailure(answer)
		if !ok {
			failure.Message = fmt.Sprintf("the server at %s answered %s with status %d", c.base, path, resp.StatusCode)
		}
		failure.Status = resp.StatusCode
		return nil, protocol.Classify(failure)
	}
	if len(answer) > maxAnswer {
		return nil, protocol.Garbled(fmt.Sprintf("the server at %s answered %s with more than %d bytes", c.base, path, maxAnswer))
	}
	return answer, nil
}

// unreachable returns the error for a server that cannot be reached, unless the caller gave up.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the server at %s: %w", c.base, context.Cause(ctx))
	}
	return &llm.Error{
		Code: llm.ErrTransport, Retryable: true, Offline: true, Message: fmt.Sprintf("no Ollama server answers at %s: %v", c.base, err),
		Next: "start it with `ollama serve`, or set base_url to its address",
	}
}

// garbled returns the error for an invalid response; nil stays nil.
func (c *Client) garbled(path string, err error) error {
	if err == nil {
		return nil
	}
	e := protocol.Garbled(fmt.Sprintf("the server at %s answered %s with something else: %v", c.base, path, err))
	e.Next = "check that base_url is the address of an Ollama server"
	return e
}

// withNext sets the next step of an error with this status.
func withNext(err error, status int, next string) error {
	if e, ok := err.(*llm.Error); ok && e.Status == status {
		e.Next = next
	}
	return err
}
