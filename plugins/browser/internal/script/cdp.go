package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/plugins/browser/internal/cdp"
	"github.com/gantry-agent/gantry/plugins/browser/internal/session"
	"github.com/gantry-agent/gantry/plugins/browser/internal/spec"
	"github.com/gantry-agent/gantry/plugins/browser/internal/target"
	"github.com/gantry-agent/gantry/sdk/codemode"
)

const (
	commandTime = 10 * time.Second // of a command, unless the script gives another one
	maxCommand  = 60 * time.Second
	maxDebug    = 400 // entries
	handleMark  = "target:"
)

// globals are what the script of a run can call.
type globals struct {
	run     *Run
	spec    *spec.Spec
	browser *session.Execution[*Conn]
	acts    sync.Mutex // held while something happens in the page: action.Session is not safe for concurrent use

	mu       sync.Mutex
	debug    []debugEntry
	streams  []string
	contexts []string
}

// pictures are commands that return what a page looks like, or the page as a file.
var pictures = []string{"Page.captureScreenshot", "Page.captureSnapshot", "Page.printToPDF", "LayerTree.replaySnapshot"}

type debugEntry struct {
	Type   string    `json:"type"` // "send", "receive", "warning" or "attach"
	At     time.Time `json:"at"`
	Method string    `json:"method,omitempty"`
	Text   string    `json:"text,omitempty"`
}

func (g *globals) providers() []codemode.Provider {
	// The browser is got when something needs it first, and released when the script has ended.
	dispose := func(context.Context) (*codemode.Runtime, error) {
		return &codemode.Runtime{Dispose: g.browser.Dispose}, nil
	}
	return []codemode.Provider{
		{Name: "cdp", Positional: true, CreateRuntime: dispose, Functions: functions(map[string]codemode.Func{
			"send": g.send, "attachToTarget": g.attach, "spec": g.search, "getDebugLog": g.debugLog, "clearDebugLog": g.clearDebugLog,
			"sessionInfo":  described(g.browser.Info),
			"startSession": described(g.browser.Start),
			"resetSession": described(g.browser.Reset),
			"closeSession": func(ctx context.Context, _ []json.RawMessage) (any, error) { return nil, g.browser.Close(ctx) },
		})},
		{Name: "page", Positional: true, Functions: functions(g.page())},
	}
}

func functions(all map[string]codemode.Func) []codemode.Function {
	var out []codemode.Function
	for name, f := range all {
		out = append(out, codemode.Function{Declaration: codemode.Declaration{Name: name}, Call: f})
	}
	return out
}

// described makes a function of one that describes the shared browser, or that there is none.
func described(f func(context.Context) (*session.Info, error)) codemode.Func {
	return func(ctx context.Context, _ []json.RawMessage) (any, error) {
		i, err := f(ctx)
		if i == nil {
			return json.RawMessage("null"), err
		}
		return i, err
	}
}

// log adds an entry to the debug log.
func (g *globals) log(kind, method, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.debug = append(g.debug, debugEntry{kind, time.Now(), method, text})
	g.debug = g.debug[max(0, len(g.debug)-maxDebug):]
}

// conn returns the connection to the browser, once the script may act.
func (g *globals) conn(ctx context.Context) (*Conn, error) {
	c, err := g.browser.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return c, c.Await(ctx)
}

// command are the arguments of cdp.send.
type command struct {
	method, handle string
	params         map[string]json.RawMessage
	timeout        time.Duration
}

// arguments parses (method, params?, {sessionId?, timeoutMs?}?), or one object with all of these.
func arguments(args []json.RawMessage) (command, error) {
	const usage = "invalid arguments for cdp.send at %s: %s; write cdp.send(method, params?, {sessionId?, timeoutMs?})"
	c := command{params: map[string]json.RawMessage{}, timeout: commandTime}
	if len(args) == 0 {
		return c, fmt.Errorf(usage, "method", "it is missing")
	}
	fields := map[string]json.RawMessage{"method": args[0]}
	if strings.HasPrefix(string(args[0]), "{") {
		if err := json.Unmarshal(args[0], &fields); err != nil {
			return c, err
		}
	} else {
		if len(args) > 2 && string(args[2]) != "null" {
			if err := json.Unmarshal(args[2], &fields); err != nil {
				return c, fmt.Errorf(usage, "options", "they are no object")
			}
			fields["method"] = args[0]
		}
		if len(args) > 1 {
			fields["params"] = args[1]
		}
	}
	for name, v := range fields {
		var err error
		if string(v) == "null" && name != "method" {
			continue
		}
		switch name {
		case "method":
			err = json.Unmarshal(v, &c.method)
		case "params":
			err = json.Unmarshal(v, &c.params)
		case "sessionId":
			err = json.Unmarshal(v, &c.handle)
		case "timeoutMs":
			var ms float64
			err = json.Unmarshal(v, &ms)
			c.timeout = min(max(time.Duration(ms*float64(time.Millisecond)), time.Millisecond), maxCommand)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			want := map[string]string{"params": "an object", "timeoutMs": "a number"}[name]
			if want == "" {
				want = "a string"
			}
			return c, fmt.Errorf(usage, name, fmt.Sprintf("%.100s is not %s that it expects", v, want))
		}
	}
	if c.method == "" {
		return c, fmt.Errorf(usage, "method", "it is missing")
	}
	return c, nil
}

// overall reports whether commands of a method belong to the browser, not to a page.
func overall(method string) bool {
	return strings.HasPrefix(method, "Browser.") || strings.HasPrefix(method, "Target.")
}

func (g *globals) send(ctx context.Context, args []json.RawMessage) (any, error) {
	c, err := arguments(args)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	streams, contexts := g.streams, g.contexts
	g.mu.Unlock()
	if err := check(g.spec, c.method, c.params, streams, contexts); err != nil {
		return nil, err
	}
	conn, err := g.conn(ctx)
	if err != nil {
		return nil, err
	}
	tab, s, err := g.find(conn, c)
	if err != nil {
		return nil, err
	}
	if err := ofUser(conn.Browser, c, s); err != nil {
		return nil, err
	}
	sites := open(conn.Browser)
	if err := closedSite(c.method, c.params, sites); err != nil {
		return nil, err
	}
	address := ""
	if c.method == "Page.navigate" || c.method == "Target.createTarget" {
		if address = text(c.params["url"]); address != "" && address != "about:blank" {
			if err := conn.Attended(ctx); err != nil {
				return nil, err
			}
			if err := conn.Allowed(ctx, address); err != nil {
				g.run.event(Event{c.method, address, err.Error()})
				return nil, err
			}
		}
	}
	done, err := ofPart(ctx, conn.Browser, &c)
	if err != nil {
		return nil, err
	}
	defer done()
	if c.method == "Target.closeTarget" && len(conn.Browser.Tabs()) == 1 { // the browser would end with its last tab
		if _, err := conn.Browser.NewTab(ctx); err != nil {
			return nil, err
		}
	}
	if tab != nil && slices.Contains(pictures, c.method) {
		g.acts.Lock()
		err := conn.pictured(ctx, tab)
		g.acts.Unlock()
		if err != nil {
			return nil, err
		}
	}
	g.log("send", c.method, "")
	result, err := g.call(ctx, tab, s, c)
	if err != nil {
		g.log("receive", c.method, err.Error())
		return nil, conn.Explain(err)
	}
	g.log("receive", c.method, fmt.Sprintf("%d bytes", len(result)))
	if c.method == "Target.getTargets" {
		if result, err = partly(conn.Browser, result); err != nil {
			return nil, err
		}
	}
	if slices.Contains(everywhere, c.method) {
		return ofSites(json.RawMessage(result), sites)
	}
	return g.noted(conn, c, address, result)
}

// find returns the session that a command is for. tab is nil for the browser's own.
func (g *globals) find(conn *Conn, c command) (*target.Tab, *cdp.Session, error) {
	if c.handle == "" {
		if !overall(c.method) {
			g.log("warning", c.method, "sent without a sessionId")
		}
		return nil, conn.Browser.Root(), nil
	}
	tab, s := conn.Browser.Find(strings.TrimPrefix(c.handle, handleMark))
	if s == nil {
		return nil, nil, fmt.Errorf("there is no target %s any more; list them with page.list_tabs()", c.handle)
	}
	if overall(c.method) {
		return nil, conn.Browser.Root(), nil
	}
	return tab, s, nil
}

func (g *globals) call(ctx context.Context, tab *target.Tab, s *cdp.Session, c command) (jsonv2.Value, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("CDP command timed out after %dms: %s", c.timeout.Milliseconds(), c.method))
	defer cancel()
	params, err := json.Marshal(c.params)
	if err != nil {
		return nil, err
	}
	var result jsonv2.Value
	f := func(ctx context.Context) error { return s.Call(ctx, c.method, jsonv2.Value(params), &result) }
	if tab != nil && c.method != "Page.handleJavaScriptDialog" {
		err = tab.Do(ctx, f)
	} else {
		err = f(ctx)
	}
	e, refused := errors.AsType[*cdp.Error](err)
	switch {
	case err == nil:
		return result, nil
	case refused && s.ID() == "" && (e.Code == -32601 || strings.Contains(e.Message, "wasn't found")):
		return nil, fmt.Errorf("CDP error %d: %s for %s; commands of a page need its session: const sessionId = await cdp.attachToTarget(targetId); await cdp.send(%q, {...}, {sessionId})",
			e.Code, e.Message, c.method, c.method)
	case refused:
		return nil, fmt.Errorf("CDP error %d: %s for %s", e.Code, e.Message, c.method)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// noted notes what a result means for later commands and for who observes the run.
func (g *globals) noted(conn *Conn, c command, address string, result jsonv2.Value) (any, error) {
	var r struct {
		Stream           string `json:"stream"`
		BrowserContextID string `json:"browserContextId"`
		Data             []byte `json:"data"`
		ErrorText        string `json:"errorText"`
	}
	switch c.method {
	case "Page.printToPDF", "Target.createBrowserContext", "Page.captureScreenshot", "Page.navigate":
		if err := json.Unmarshal(result, &r); err != nil {
			return nil, err
		}
	}
	switch c.method {
	case "Page.printToPDF", "Target.createBrowserContext":
		g.mu.Lock()
		if r.Stream != "" {
			g.streams = append(g.streams, r.Stream)
		}
		if r.BrowserContextID != "" {
			conn.Browser.Own(r.BrowserContextID)
			g.contexts = append(g.contexts, r.BrowserContextID)
		}
		g.mu.Unlock()
	case "Page.captureScreenshot":
		format := text(c.params["format"])
		if format == "" {
			format = "png"
		}
		_ = g.run.image(action.Image{MediaType: "image/" + format, Data: r.Data}) // the script has it in any case
	case "Page.navigate", "Target.createTarget", "Target.closeTarget":
		g.run.event(Event{c.method, address, r.ErrorText})
	}
	return json.RawMessage(result), nil
}

// attach returns the handle of a target, which stays the same when the plugin connects again.
func (g *globals) attach(ctx context.Context, args []json.RawMessage) (any, error) {
	var id string
	object := false
	if len(args) > 0 {
		if id = text(args[0]); id == "" {
			var o map[string]json.RawMessage
			object = json.Unmarshal(args[0], &o) == nil
			id = text(o["targetId"])
		}
	}
	if id == "" {
		return nil, errors.New("invalid arguments for cdp.attachToTarget at targetId: it is missing; page.list_tabs() has those of the tabs")
	}
	conn, err := g.conn(ctx)
	if err != nil {
		return nil, err
	}
	_, s := conn.Browser.Find(strings.TrimPrefix(id, handleMark))
	if s == nil {
		return nil, fmt.Errorf("there is no page or frame with the target ID %q; page.list_tabs() has those of the tabs", id)
	}
	g.log("attach", "", id)
	handle := handleMark + strings.TrimPrefix(id, handleMark)
	if object {
		return map[string]string{"sessionId": handle}, nil
	}
	return handle, nil
}

// search finds commands, events and types of the protocol.
func (g *globals) search(_ context.Context, args []json.RawMessage) (any, error) {
	const limit = 30
	query := ""
	if len(args) > 0 {
		if query = text(args[0]); query == "" {
			var o map[string]json.RawMessage
			_ = json.Unmarshal(args[0], &o) // null and an empty object find what an absent query does
			query = text(o["query"])
		}
	}
	if strings.TrimSpace(query) == "" {
		return nil, errors.New(`give cdp.spec words, a domain or a name, such as cdp.spec("cookie set"), cdp.spec("Page") or cdp.spec("Page.captureScreenshot")`)
	}
	items, more := g.spec.Find(query, limit)
	return map[string]any{"items": items, "more": more}, nil
}

func (g *globals) debugLog(_ context.Context, args []json.RawMessage) (any, error) {
	limit := 50.0
	if len(args) > 0 && json.Unmarshal(args[0], &limit) != nil {
		var o struct{ Limit float64 }
		if json.Unmarshal(args[0], &o) == nil && o.Limit > 0 {
			limit = o.Limit
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]debugEntry{}, g.debug[max(0, len(g.debug)-max(1, int(min(limit, maxDebug)))):]...), nil
}

func (g *globals) clearDebugLog(context.Context, []json.RawMessage) (any, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.debug = nil
	return nil, nil
}
