package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/gantry-agent/gantry/host/internal/cli/render"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/spf13/cobra"
)

func (a *app) modelCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Inspect requests to models"}
	cmd.AddCommand(a.modelPrepare())
	return cmd
}

func (a *app) modelPrepare() *cobra.Command {
	var f execFlags
	var which string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prepare [flags] [TASK | -]",
		Short: "Print a task's HTTP request without sending it",
		Long: "prepare prints the request that exec (or, with --thread, resume) would send first for the task: method, URL and headers,\n" +
			"and the body as the provider writes it. Keys are redacted, and a missing key is not an error. Nothing is sent to the\n" +
			"model and nothing is stored; providers and tools are started as usual. With --thread, the task is optional.",
		Example: "  gantry model prepare \"say hello\"\n  gantry model prepare --json \"say hello\" | jq .body.tools",
		Args:    console.Takes(0, 1, console.TaskArgument),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			var prompt string
			var err error
			switch {
			case which == "" || len(args) > 0:
				prompt, err = readPrompt(args, a.Stdin)
			case piped(a.Stdin):
				prompt, err = readText(a.Stdin)
			}
			if err != nil {
				return err
			}
			return a.prepare(ctx, f, which, prompt, asJSON)
		},
	}
	f.registerTask(cmd)
	fs := cmd.Flags()
	fs.StringVar(&which, "thread", "", "show the next request of the stored `THREAD`: an ID, a prefix of one, or a name")
	fs.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) prepare(ctx context.Context, f execFlags, which, prompt string, asJSON bool) (err error) {
	cwd, err := a.WorkDir(f.dir)
	if err != nil {
		return err
	}
	sub, err := f.submission(prompt)
	if err != nil {
		return err
	}
	sub.Settings.Model = f.model
	h, err := a.OpenHub(ctx, console.HubOptions{Dir: cwd, Ephemeral: which == "", OnlyLooks: true, Keyless: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	var id event.ThreadID
	if which != "" {
		if id, err = console.ThreadIn(ctx, h, which, cwd, false); err != nil {
			return err
		}
	}
	prepared, err := h.Prepare(ctx, hub.Workspace{Dir: cwd, Ephemeral: which == ""}, id, sub)
	if err != nil {
		return err
	}
	for _, n := range prepared.Notices {
		a.ShowNotice(n)
	}
	if !strings.HasPrefix(prepared.URL, "http") {
		a.ShowNotice(event.Notice{Text: fmt.Sprintf("provider %q sends nothing over HTTP; this is the request as it receives it", prepared.Model.Provider)})
	}
	if asJSON {
		return a.printPrepared(prepared)
	}
	return showPrepared(a.Stdout, prepared)
}

// showPrepared prints a request for users.
func showPrepared(w io.Writer, p *hub.Prepared) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", p.Method, p.URL)
	for _, h := range p.Headers {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	b.WriteByte('\n')
	if err := json.Indent(&b, p.Body, "", "  "); err != nil { // not JSON
		b.Write(p.Body)
	}
	if _, err := fmt.Fprintln(w, strings.TrimRight(render.Clean(b.String()), "\n")); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// preparedJSON is the output of --json. It contains the body byte for byte.
type preparedJSON struct {
	Provider string            `json:"provider"`
	Model    string            `json:"model"`
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Body     json.RawMessage   `json:"body,omitempty"`
	BodyText string            `json:"bodyText,omitempty"` // a body that is not JSON
}

func (a *app) printPrepared(p *hub.Prepared) error {
	out := preparedJSON{Provider: p.Model.Provider, Model: p.Model.ModelName, Method: p.Method, URL: p.URL, Headers: map[string]string{}}
	for _, h := range p.Headers {
		if before, several := out.Headers[h.Name]; several {
			h.Value = before + ", " + h.Value
		}
		out.Headers[h.Name] = h.Value
	}
	if json.Valid(p.Body) {
		out.Body = p.Body
	} else {
		out.BodyText = string(p.Body)
	}
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}
