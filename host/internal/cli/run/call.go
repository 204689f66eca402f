package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
)

// statusInterrupted is the exit status of a call that Ctrl-C has ended: that of a program which SIGINT ends, so that loops of shells end, too.
const statusInterrupted = console.StatusError(130)

// maxArguments bounds the size in bytes of a call's arguments.
const maxArguments = 8 << 20

func (a *app) callCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "call [flags] NAME TOOL [JSON]", Short: "Call a tool of an MCP server", Args: console.Takes(2, 3, "NAME", "TOOL", "JSON"),
		Long: "call calls a tool of the MCP server NAME, as a model would: policy, rules, hooks, approvals and limits are those of a thread in this\n" +
			"folder, which is not stored. Approvals are asked for on the terminal. JSON is an object of arguments; - reads it from standard input.\n" +
			"Exit status 1: the call was refused, or the result is an error; 130: it was interrupted.",
		Example: "  gantry mcp call github get_issue '{\"number\": 17}'\n  gantry mcp call --json github get_issue - < arguments.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			input := "{}"
			if len(args) > 2 {
				input = args[2]
			}
			return a.call(cmd.Context(), args[0], args[1], input, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON: content, structuredContent and isError")
	return cmd
}

// call calls a tool and prints its result.
func (a *app) call(ctx context.Context, server, name, input string, asJSON bool) (err error) {
	if input == "-" {
		if input, err = console.ReadText(a.Stdin, maxArguments); err != nil {
			return fmt.Errorf("read the arguments from standard input: %w", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(input), &object); err != nil || object == nil {
		why := "it is another value"
		if err != nil {
			why = err.Error()
		}
		return console.UsageError{Text: fmt.Sprintf("the arguments are not a JSON object (%s): %q", why, render.OneLine(input, 80)), Next: `write them as in '{"name": "value"}'`}
	}
	w := hub.Workspace{Dir: a.Dir, Ephemeral: true}
	h, err := a.OpenHub(ctx, console.HubOptions{Dir: a.Dir, Ephemeral: true, OneTurn: true, Needs: func(p config.Process) bool {
		return p.Plugin != mcpPlugin || p.Name == contract.ProcessName("server", server)
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	d, err := findTool(ctx, h, w, server, name)
	if err != nil {
		return err
	}
	t, err := h.Start(ctx, hub.StartParams{Workspace: w, Source: "exec"})
	if err != nil {
		return err
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
	r, failed := t.CallTool(ctx, hub.ToolCall{ID: event.CallID("cli_" + uuid.Must(uuid.NewV7()).String()), Namespace: d.Namespace, Name: d.Name, Input: input})
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
	if asJSON {
		var out any = resultOf(r)
		if len(r.Structured) > 0 { // the server's own result, as it wrote it
			out = r.Structured
		}
		err = a.PrintJSON(out)
	} else {
		a.printResult(r)
	}
	if err == nil && r.IsError {
		return console.ErrTurn
	}
	return err
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

// printResult prints a result for people.
func (a *app) printResult(r hub.ToolResult) {
	for _, p := range r.Content {
		switch p := p.(type) {
		case *llm.Text:
			fmt.Fprintln(a.Stdout, strings.TrimRight(render.Clean(p.Text), "\n"))
		case *llm.Media:
			fmt.Fprintf(a.Stdout, "(%s, %d bytes; --json prints it)\n", render.Clean(p.MediaType), len(p.Data))
		}
	}
}
