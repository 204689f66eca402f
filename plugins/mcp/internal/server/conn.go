package server

//lint:file-ignore SA1019 most servers are of versions that have sampling, roots and logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// listed is a server's list of tools.
type listed struct {
	tools    []catalog.Tool
	problems []string
}

// conn is one connection.
type conn struct {
	s            *Server
	link         Link
	session      *mcp.ClientSession
	life         context.Context // ends with the connection
	end          context.CancelFunc
	since        time.Time
	listed       listed
	instructions string
	dirty        chan struct{} // the tools have changed
	dirtyPrompts chan struct{} // the prompts have changed
	closing      sync.Once
	closed       chan struct{} // closing is done
	tasks        sync.WaitGroup
	sampling     chan struct{} // has an element for each request of the server that is being answered

	roots struct {
		sync.Mutex
		client *mcp.Client
		told   []*mcp.Root // to the client, and so to the server
	}

	users  int // under the server's lock, as the next two
	uses   int
	reaper *time.Timer

	mu struct {
		sync.Mutex
		token int
		calls []*running // in the order of their start
		lines int        // of the server's log
	}
}

// running is a call that a server's messages may belong to.
type running struct {
	token int
	ctx   context.Context
	ev    Events
}

func (c *conn) use() {
	c.users++
	c.uses++
	if c.reaper != nil {
		c.reaper.Stop()
	}
}

// connect opens a link, initializes a session, and lists the tools.
func (s *Server) connect() (c *conn, err error) {
	c = &conn{s: s, since: time.Now(), dirty: make(chan struct{}, 1), dirtyPrompts: make(chan struct{}, 1), closed: make(chan struct{}), sampling: make(chan struct{}, maxSampling)}
	c.life, c.end = context.WithCancel(s.life)
	defer func() {
		if err != nil {
			c.close()
			c = nil
		}
	}()
	ctx, cancel := context.WithTimeoutCause(c.life, s.cfg.StartupTimeout, fmt.Errorf("it was not ready within %v; next: raise startup_timeout in its block if it needs longer", s.cfg.StartupTimeout))
	defer cancel()
	fail := func(err error) error {
		if ctx.Err() != nil && c.life.Err() == nil {
			err = context.Cause(ctx)
		}
		if wrongForm(err) {
			err = errForm
		}
		if s.cfg.URL != "" {
			return auth.Explain(s.cfg.Name, s.cfg.URL, err)
		}
		return fmt.Errorf("the server %q does not start: %w%s", s.cfg.Name, err, c.explanation())
	}
	for i := 0; ; i++ { // a transport can be used once
		if c.link, err = s.cfg.Open(c.life); err != nil {
			return c, fail(err)
		}
		stop := func() bool { return true }
		if c.link.Close != nil {
			stop = context.AfterFunc(ctx, c.link.Close) // the SDK waits for what it can't write
		}
		c.session, err = c.client().Connect(ctx, c.link.Transport, &mcp.ClientSessionOptions{ProtocolVersion: s.cfg.Protocol})
		stop()
		if err == nil || !c.link.Retry || i == len(retries) || !retryable(err) || !pause(ctx, retries[i]) {
			break
		}
		if c.link.Close != nil {
			c.link.Close()
		}
	}
	if err != nil {
		c.session = nil
		return c, fail(err)
	}
	init := c.session.InitializeResult()
	c.instructions = catalog.Text(init.Instructions, catalog.MaxInstructions)
	if init.Capabilities != nil && init.Capabilities.Tools != nil {
		if c.listed, err = c.list(ctx); err != nil {
			return c, fail(err)
		}
	}
	return c, nil
}

// offers returns the server's capabilities.
func (c *conn) offers() mcp.ServerCapabilities {
	if init := c.session.InitializeResult(); init != nil && init.Capabilities != nil {
		return *init.Capabilities
	}
	return mcp.ServerCapabilities{}
}

// follow keeps up with what the server offers and says. Its tasks end with life.
func (c *conn) follow() {
	c.tasks.Go(func() {
		c.relist(c.dirty, func(ctx context.Context) {
			l, err := c.list(ctx)
			c.s.relisted(c, l, err)
		})
	})
	offers := c.offers()
	prompts := func(ctx context.Context) {
		var list []contract.SourcePrompt
		var problems []error
		var err error
		if offers.Prompts != nil {
			list, problems, err = catalog.ListPrompts(ctx, func(ctx context.Context, cursor string) (json.RawMessage, error) {
				return c.read(ctx, promptPage(cursor))
			})
		}
		c.s.prompted(c, list, problems, err)
	}
	c.tasks.Go(func() {
		c.refresh(prompts) // the tools do not wait for them
		c.relist(c.dirtyPrompts, prompts)
	})
	if offers.Logging != nil {
		c.tasks.Go(func() {
			c.refresh(func(ctx context.Context) {
				_ = c.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}) // some servers log nothing before
			})
		})
	}
}

// promptPage returns the request for a page of the prompts.
func promptPage(cursor string) func(context.Context, *conn) (mcp.Meta, error) {
	return func(ctx context.Context, c *conn) (mcp.Meta, error) {
		res, err := c.session.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		return res.Meta, nil
	}
}

// refresh runs a request with a bound.
func (c *conn) refresh(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(c.life, c.s.cfg.StartupTimeout)
	defer cancel()
	f(ctx)
}

// client returns the client of one session, since its handlers belong to the connection.
func (c *conn) client() *mcp.Client {
	can := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}}
	opts := &mcp.ClientOptions{
		Capabilities: can,
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case c.dirty <- struct{}{}:
			default:
			}
		},
		PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
			select {
			case c.dirtyPrompts <- struct{}{}:
			default:
			}
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress(r.Params) },
		LoggingMessageHandler:       func(_ context.Context, r *mcp.LoggingMessageRequest) { c.log(r.Params) },
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return c.elicit(ctx, r.Params)
		},
	}
	if c.s.cfg.Sampling {
		can.Sampling, opts.CreateMessageWithToolsHandler = &mcp.SamplingCapabilities{}, c.sample // which refuses tools itself
	}
	if c.s.cfg.Roots {
		can.RootsV2 = &mcp.RootCapabilities{ListChanged: true}
	}
	client := mcp.NewClient(c.s.cfg.Client, opts)
	c.roots.Lock()
	c.roots.client, c.roots.told = client, nil
	c.roots.Unlock()
	c.syncRoots() // tells no server yet, since there is no session
	return client
}

// syncRoots tells the server of the folders that have changed.
func (c *conn) syncRoots() {
	if !c.s.cfg.Roots {
		return
	}
	c.roots.Lock()
	defer c.roots.Unlock()
	c.s.mu.Lock()
	want := c.s.mu.roots
	c.s.mu.Unlock()
	among := func(roots []*mcp.Root, r *mcp.Root) bool {
		return slices.ContainsFunc(roots, func(o *mcp.Root) bool { return o.URI == r.URI })
	}
	var gone []string
	for _, r := range c.roots.told {
		if !among(want, r) {
			gone = append(gone, r.URI)
		}
	}
	added := slices.DeleteFunc(slices.Clone(want), func(r *mcp.Root) bool { return among(c.roots.told, r) })
	c.roots.told = want
	c.roots.client.AddRoots(added...)
	if len(gone) > 0 {
		c.roots.client.RemoveRoots(gone...)
	}
}

// list gets the tools.
func (c *conn) list(ctx context.Context) (listed, error) {
	tools, problems, err := catalog.List(ctx, func(ctx context.Context, cursor string) (json.RawMessage, error) {
		return c.retried(ctx, func(ctx context.Context) (json.RawMessage, error) {
			res, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			if err != nil {
				return nil, err
			}
			return rawOf(res.Meta)
		})
	}, c.s.cfg.Choice)
	l := listed{tools: tools}
	for _, p := range problems {
		l.problems = append(l.problems, p.Error())
	}
	return l, err
}

func rawOf(meta mcp.Meta) (json.RawMessage, error) {
	raw, ok := transport.Raw(meta)
	if !ok {
		return nil, errForm
	}
	return raw, nil
}

var errForm = errors.New("the server's answer has another form than the protocol demands")

// wrongForm reports whether the SDK could not decode an answer; what it says of that is about types of Go.
func wrongForm(err error) bool {
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// relist requests a list again after the server has said that it changed, however often it says so.
func (c *conn) relist(dirty <-chan struct{}, list func(ctx context.Context)) {
	for {
		select {
		case <-dirty:
		case <-c.life.Done():
			return
		}
		if !pause(c.life, settle) {
			return
		}
		select {
		case <-dirty: // what was said meanwhile is part of the answer
		default:
		}
		c.refresh(list)
	}
}

// call calls a tool.
func (c *conn) call(ctx context.Context, tool string, args json.RawMessage, ev Events) (json.RawMessage, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	r := &running{ctx: ctx, ev: ev}
	c.mu.Lock()
	c.mu.token++
	r.token = c.mu.token
	c.mu.calls = append(c.mu.calls, r)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.calls = slices.DeleteFunc(c.mu.calls, func(o *running) bool { return o == r })
	}()
	p := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: tool, Arguments: args}
	for k, v := range ev.Meta {
		p.Meta[k] = v
	}
	p.SetProgressToken(r.token)
	c.syncRoots()
	res, err := c.session.CallTool(ctx, p)
	if err != nil {
		return nil, err
	}
	return rawOf(res.Meta)
}

// read sends a request that changes nothing, and returns its result as the server wrote it.
func (c *conn) read(ctx context.Context, f func(context.Context, *conn) (mcp.Meta, error)) (json.RawMessage, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	return c.retried(ctx, func(ctx context.Context) (json.RawMessage, error) {
		meta, err := f(ctx, c)
		if err != nil {
			return nil, err
		}
		return rawOf(meta)
	})
}

func (c *conn) resources(ctx context.Context, method, argument string) (json.RawMessage, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	switch method {
	case "resources/list":
		res, err := c.session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: argument})
		if err != nil {
			return nil, err
		}
		return rawOf(res.Meta)
	case "resources/templates/list":
		res, err := c.session.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: argument})
		if err != nil {
			return nil, err
		}
		return rawOf(res.Meta)
	}
	res, err := c.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: argument})
	if err != nil {
		return nil, err
	}
	return rawOf(res.Meta)
}

// bound returns a context that also ends with the connection: a session waits for its calls when it is closed.
func (c *conn) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// retried sends a request that changes nothing again if it failed on the way.
func (c *conn) retried(ctx context.Context, f func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	for i := 0; ; i++ {
		raw, err := f(ctx)
		if err == nil || !c.link.Retry || i == len(retries) || !retryable(err) || !pause(ctx, retries[i]) {
			return raw, err
		}
	}
}

// retryable reports whether a request over HTTP may work later: it did not arrive, or the server could not answer now.
func retryable(err error) bool {
	if status, ok := errors.AsType[*transport.StatusError](err); ok {
		return slices.Contains([]int{
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		}, status.Code)
	}
	_, answered := transport.ServerError(err)
	_, elsewhere := errors.AsType[*transport.OriginError](err)
	_, login := errors.AsType[*auth.LoginError](err)
	return !answered && !elsewhere && !login && !errors.Is(err, auth.ErrCredentials) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// explain words the error of a call.
func (c *conn) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := transport.ServerError(err); ok {
		return err
	}
	if wrongForm(err) {
		err = errForm
	}
	reason := "" // that of the SDK is "EOF" if the server has ended
	if i := strings.Index(err.Error(), "the server has sent"); i >= 0 {
		reason = ": " + err.Error()[i:] // it ends the connection, perhaps a moment later
	}
	if reason != "" || c.life.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		if c.s.life.Err() != nil {
			return ErrClosed
		}
		return fmt.Errorf("the server %q has ended during the call%s%s; the next call starts it again", c.s.cfg.Name, reason, c.explanation())
	}
	if c.s.cfg.URL != "" {
		return auth.Explain(c.s.cfg.Name, c.s.cfg.URL, err)
	}
	return fmt.Errorf("the server %q: %w", c.s.cfg.Name, err)
}

// explanation returns what is known about the end of the server, after a separator.
func (c *conn) explanation() string {
	if c.link.Explain == nil {
		return ""
	}
	if s := c.link.Explain(); s != "" {
		return "; " + s
	}
	return ""
}

func (c *conn) progress(p *mcp.ProgressNotificationParams) {
	r := c.find(func(r *running) bool { return fmt.Sprint(p.ProgressToken) == fmt.Sprint(r.token) })
	if r != nil && r.ev.Progress != nil {
		r.ev.Progress(catalog.Line(p.Message, 200), p.Progress, p.Total)
	}
}

// elicit asks in the name of the newest call: the protocol does not say which one a question belongs to.
func (c *conn) elicit(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	r := c.find(func(r *running) bool { return r.ev.Elicit != nil })
	if r == nil {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	return r.ev.Elicit(ctx, p)
}

// sample asks a model in the name of the newest call, as elicit does, since the answer is paid for by the call's thread.
func (c *conn) sample(ctx context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
	select {
	case c.sampling <- struct{}{}:
		defer func() { <-c.sampling }()
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("%d sampling requests are being answered, which is the maximum; send this one again later", maxSampling)}
	}
	call := c.find(func(r *running) bool { return r.ev.Sample != nil })
	if call == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "sampling requests are answered only while a tool of this server is being called"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(call.ctx, cancel)()
	return call.ev.Sample(ctx, r.Params)
}

// find returns the newest call that matches.
func (c *conn) find(matches func(*running) bool) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range slices.Backward(c.mu.calls) {
		if matches(r) {
			return r
		}
	}
	return nil
}

func (c *conn) log(p *mcp.LoggingMessageParams) {
	c.mu.Lock()
	c.mu.lines++
	over := c.mu.lines > maxLogLines
	c.mu.Unlock()
	if !over {
		b, _ := json.Marshal(p.Data)
		c.s.cfg.Logger.Debug("a server's log", "server", c.s.cfg.Name, "level", string(p.Level), "text", catalog.Line(string(b), 500))
	}
}

// close ends the connection; it waits until everything has ended.
func (c *conn) close() {
	c.closing.Do(func() {
		defer close(c.closed)
		c.end()
		ended := make(chan struct{})
		if c.session == nil {
			close(ended)
		} else {
			go func() { // owned by close; ends at the latest after link.Close
				defer close(ended)
				_ = c.session.Close()
			}()
			t := time.NewTimer(closeTime)
			select {
			case <-ended:
			case <-t.C:
			}
			t.Stop()
		}
		if c.link.Close != nil {
			c.link.Close()
		}
		<-ended
		c.tasks.Wait()
	})
	<-c.closed
}
