package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// statusInterrupted is the exit status of a call that Ctrl-C has ended: that of a program which SIGINT ends, so that loops of shells end, too.
const statusInterrupted = console.StatusError(130)

// maxArguments bounds the size in bytes of a call's arguments.
const maxArguments = 8 << 20

// caller makes calls of tools without a model.
type caller struct{ *app }

// mcpCallCommand is `gantry mcp call`.
func (a caller) mcpCallCommand() *cobra.Command {
	var c Call
	cmd := &cobra.Command{
		Use: "call [flags] NAME TOOL [JSON]", Short: "Call a tool of an MCP server", Args: console.Takes(2, 3, "NAME", "TOOL", "JSON"),
		Long: "call calls a tool of the MCP server NAME, as a model would: policy, rules, hooks, approvals and limits are those of a thread in this\n" +
			"folder, which is not stored. Approvals are asked for on the terminal. JSON is an object of arguments; - reads it from standard input.\n" +
			"Exit status 1: the call was refused, or the result is an error; 130: it was interrupted.",
		Example: "  gantry mcp call github get_issue '{\"number\": 17}'\n  gantry mcp call --json github get_issue - < arguments.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Plugin, c.Server, c.Tool, c.Input = mcpPlugin, args[0], args[1], "{}"
			if len(args) > 2 {
				c.Input = args[2]
			}
			return a.call(cmd.Context(), c)
		},
	}
	c.Define(cmd.Flags())
	return cmd
}

// callCommand is `gantry call`.
func (a caller) callCommand() *cobra.Command {
	var c Call
	cmd := &cobra.Command{
		Use: "call [flags] PLUGIN TOOL [JSON]", Short: "Call a tool of a plugin, without a model", Args: console.Takes(2, 3, "PLUGIN", "TOOL", "JSON"),
		Long: "call calls a tool of a plugin, as a model would: policy, rules, hooks, approvals and limits are those of a thread in this folder, which\n" +
			"is not stored. Approvals are asked for on the terminal. JSON is an object of arguments; - reads it from standard input.\n" +
			"What the tool keeps, such as a running command or a browser, ends with the call. With --session, the call is one of a thread that a\n" +
			"process in the background keeps: it is started by the first call with that name, in whose folder and with whose settings all of them\n" +
			"are made, and ends when it is unused for half an hour, or with `gantry session stop`.\n" +
			"Exit status 1: the call was refused, or the result is an error; 130: it was interrupted.",
		Example: "  gantry call weather forecast '{\"place\": \"Oslo\"}'\n  gantry call --session work --save . canvas draw - < drawing.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Plugin, c.Tool, c.Input = args[0], args[1], "{}"
			if len(args) > 2 {
				c.Input = args[2]
			}
			return a.call(cmd.Context(), c)
		},
	}
	c.Define(cmd.Flags())
	c.DefineSession(cmd.Flags())
	return cmd
}

// Call is a call of a tool that the command line makes.
type Call struct {
	Plugin  string // label
	Server  string // of an MCP server; "": the tool is the plugin's own
	Tool    string
	Input   string // JSON object; "-": it is read from standard input
	JSON    bool   // print the result as JSON
	Save    string // folder for pictures and artifacts; "": they are named only
	Session string // name of the session in the background that makes the call; "": a thread that ends with it
}

// Define defines the flags for the result.
func (c *Call) Define(f *pflag.FlagSet) {
	f.BoolVar(&c.JSON, "json", false, "print the result as JSON: content, structuredContent and isError")
	f.StringVar(&c.Save, "save", "", "save the result's pictures in `DIR`")
}

// DefineSession defines the flag for the session.
func (c *Call) DefineSession(f *pflag.FlagSet) {
	f.StringVar(&c.Session, "session", "", "make the call in the session `NAME`, which a process in the background keeps")
}

// call makes a call and prints its result.
func (a caller) call(ctx context.Context, c Call) (err error) {
	if c.Input == "-" {
		if c.Input, err = console.ReadText(a.Stdin, maxArguments); err != nil {
			return fmt.Errorf("read the arguments from standard input: %w", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.Input), &object); err != nil || object == nil {
		why := "it is another value"
		if err != nil {
			why = err.Error()
		}
		return console.UsageError{Text: fmt.Sprintf("the arguments are not a JSON object (%s): %q", why, render.OneLine(c.Input, 80)), Next: `write them as in '{"name": "value"}'`}
	}
	if c.Session != "" {
		return a.callInSession(ctx, c)
	}
	w := hub.Workspace{Dir: a.Dir, Ephemeral: true}
	h, err := a.OpenHub(ctx, console.HubOptions{Dir: a.Dir, Ephemeral: true, OneTurn: true, Needs: func(p config.Process) bool {
		return c.Server == "" || p.Plugin != c.Plugin || p.Name == contract.ProcessName("server", c.Server)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	var d contract.Descriptor
	if c.Server != "" {
		d, err = findTool(ctx, h, w, c.Server, c.Tool)
	} else {
		d, err = findOwn(ctx, h, w, c.Plugin, c.Tool)
	}
	if err != nil {
		return err
	}
	t, err := h.Start(ctx, hub.StartParams{Workspace: w, Source: "exec"})
	if err != nil {
		return err
	}
	return a.callIn(ctx, t, c, d)
}

// callIn makes a call in a thread, which may run in another process, and prints its result.
func (a caller) callIn(ctx context.Context, t *hub.Thread, c Call, d contract.Descriptor) error {
	plugin := "" // d says it
	if c.Session != "" {
		plugin = c.Plugin
	}
	asks, err := a.attend(ctx, t, execFlags{})
	if err != nil {
		return err
	}
	events, err := t.Follow(ctx, hub.FromNow, hub.Lossless)
	if err != nil {
		asks.close()
		return err
	}
	stop := a.interruptOnSignal(ctx, t)
	following, ended := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() { // ends with following
		defer close(followed)
		for {
			e, err := events.Next(following)
			if err != nil {
				return
			}
			asks.event(e)
		}
	}()
	r, failed := t.CallTool(ctx, hub.ToolCall{ID: event.CallID("cli_" + uuid.Must(uuid.NewV7()).String()), Plugin: plugin, Namespace: d.Namespace, Name: d.Name, Input: c.Input})
	ended()
	<-followed
	events.Close()
	interrupted := stop()
	asks.close()
	switch {
	case interrupted && (failed != nil || r.IsError):
		return statusInterrupted
	case failed != nil:
		return failed
	}
	saved, err := a.save(c.Save, r)
	if err != nil {
		return err
	}
	if c.JSON {
		var out any = resultOf(r)
		if len(r.Structured) > 0 { // as the tool wrote it
			out = r.Structured
		}
		err = a.PrintJSON(out)
	} else {
		a.printResult(r, saved)
	}
	if err == nil && r.IsError {
		return console.ErrTurn
	}
	return err
}

// findOwn finds a tool of a plugin by its name.
func findOwn(ctx context.Context, h *hub.Hub, w hub.Workspace, plugin, name string) (contract.Descriptor, error) {
	o, err := h.Open(ctx, w)
	if err != nil {
		return contract.Descriptor{}, err
	}
	defer o.Close()
	tools, err := o.Tools(ctx, plugin, startWait)
	if err != nil {
		return contract.Descriptor{}, err
	}
	var names []string
	for _, d := range tools {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return contract.Descriptor{}, hint.New(fmt.Sprintf("the plugin %q has no tool %q; it has %s", plugin, name, render.OneLine(strings.Join(names, ", "), 500)),
		fmt.Sprintf("see `gantry plugin inspect %s`", plugin))
}

// mcpPlugin is the label of the plugin that offers the tools of MCP servers.
const mcpPlugin = "mcp"

// startWait bounds the time that a call waits for its server, which has a startup_timeout of its own.
const startWait = 2 * time.Minute

// findTool finds a tool by the names that its server uses, or by that which models use.
func findTool(ctx context.Context, h *hub.Hub, w hub.Workspace, server, name string) (contract.Descriptor, error) {
	o, err := h.Open(ctx, w)
	if err != nil {
		return contract.Descriptor{}, err
	}
	defer o.Close()
	var names []string
	find := func(wait time.Duration) (found *contract.Descriptor, err error) {
		tools, err := o.Tools(ctx, mcpPlugin, wait)
		if errors.Is(err, hub.ErrNoTools) { // no server is configured, or none is ready
			err = nil
		}
		names = nil
		for _, d := range tools {
			if d.Source != server {
				continue
			}
			action := d.Name
			for _, e := range d.Effects {
				if s, ok := e.(contract.ServiceEffect); ok {
					action = s.Action
				}
			}
			if action == name || d.Name == name {
				return &d, nil
			}
			names = append(names, action)
		}
		return nil, err
	}
	d, err := find(time.Second) // other servers may take longer than this one
	var source contract.Source
	if err == nil && d == nil { // the tools may be those of an earlier process, before this one was accepted
		waiting, cancel := context.WithTimeout(ctx, startWait)
		source, _ = o.Source(waiting, mcpPlugin, server)
		cancel()
		d, err = find(0)
	}
	switch {
	case err != nil:
		return contract.Descriptor{}, err
	case d != nil:
		return *d, nil
	}
	slices.Sort(names)
	has, see := render.OneLine(strings.Join(names, ", "), 500), fmt.Sprintf("see `gantry mcp tools %s`", server)
	switch why, next := hint.Split(hint.Parse(source.Message)); {
	case source.State == contract.SourceReady && why != "": // such as a pin, which leaves tools out
		return contract.Descriptor{}, hint.New(fmt.Sprintf("the MCP server %q offers no tool %q, but %s; %s", server, name, cmp.Or(has, "none"), render.OneLine(why, 1000)), cmp.Or(next, see))
	case source.State == contract.SourceStarting:
		return contract.Descriptor{}, hint.New(fmt.Sprintf("the MCP server %q is still starting after %v", server, startWait), "try again, or raise startup_timeout in its block")
	case len(names) == 0 && why != "": // it has failed, or needs a login
		return contract.Descriptor{}, hint.New(fmt.Sprintf("the MCP server %q is not ready: %s", server, render.OneLine(why, 1000)), cmp.Or(next, see))
	case len(names) == 0:
		return contract.Descriptor{}, hint.New(fmt.Sprintf("the MCP server %q is not configured, or not ready", server), fmt.Sprintf("`gantry mcp tools %s` says why", server))
	}
	return contract.Descriptor{}, hint.New(fmt.Sprintf("the MCP server %q has no tool %q; it has %s", server, name, has), see)
}

// callResult is a result as JSON that no server has written.
type callResult struct {
	Content []map[string]any `json:"content"`
	IsError bool             `json:"isError"`
}

func resultOf(r hub.ToolResult) callResult {
	out := callResult{Content: []map[string]any{}, IsError: r.IsError}
	for _, p := range r.Content {
		switch p := p.(type) {
		case *llm.Text:
			out.Content = append(out.Content, map[string]any{"type": "text", "text": p.Text})
		case *llm.Media:
			kind, _, _ := strings.Cut(p.MediaType, "/")
			out.Content = append(out.Content, map[string]any{"type": kind, "mimeType": p.MediaType, "data": p.Data})
		}
	}
	return out
}

// save writes the pictures of a result into a folder, under new names, and returns their paths in the order of the parts.
func (a caller) save(dir string, r hub.ToolResult) (paths []string, err error) {
	if dir == "" {
		return nil, nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.Dir, dir)
	}
	for _, p := range r.Content {
		m, ok := p.(*llm.Media)
		if !ok {
			continue
		}
		kind, sub, _ := strings.Cut(m.MediaType, "/")
		if sub == "" || strings.Trim(sub, "abcdefghijklmnopqrstuvwxyz0123456789") != "" { // such as svg+xml
			sub = "bin"
		}
		f, err := os.CreateTemp(dir, kind+"-*."+sub)
		if err != nil {
			return nil, fmt.Errorf("save a picture: %w", err)
		}
		_, err = f.Write(m.Data)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("save a picture: %w", err)
		}
		paths = append(paths, f.Name())
	}
	return paths, nil
}

// printResult prints a result for people. saved are the files of its pictures, if they were saved.
func (a caller) printResult(r hub.ToolResult, saved []string) {
	for _, p := range r.Content {
		switch p := p.(type) {
		case *llm.Text:
			fmt.Fprintln(a.Stdout, strings.TrimRight(render.Clean(p.Text), "\n"))
		case *llm.Media:
			if len(saved) > 0 {
				fmt.Fprintln(a.Stdout, render.Clean(saved[0]))
				saved = saved[1:]
				continue
			}
			fmt.Fprintf(a.Stdout, "(%s, %d bytes; --save DIR saves it)\n", render.Clean(p.MediaType), len(p.Data))
		}
	}
}
