// The program gantry-plugintest checks whether a plugin binary, written in any language, follows gantry's contract.
//
// It owns: the command line of the conformance kit. It must not know: any check (sdk/plugintest).
//
// Start with [run].
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gantry-agent/gantry/sdk/plugintest"
)

// Exit codes.
const (
	conforms = 0
	fails    = 1
	misused  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

const usage = `Usage: gantry-plugintest [flags] BINARY [ARGUMENTS...]

Starts the plugin like a gantry host and checks whether it follows the contract.
Exit status: 0 if it conforms, 1 if it does not, 2 for incorrect usage.

  gantry-plugintest ./my-plugin
  gantry-plugintest --config '{"units":"metric"}' --call 'forecast={"city":"Paris"}' ./my-plugin
  gantry-plugintest --examples plugintest.json --json ./my-plugin

Flags:
`

// run is main without its side effects, for tests.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("gantry-plugintest", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, usage)
		fs.PrintDefaults()
	}
	var cfg plugintest.Config
	asJSON := fs.Bool("json", false, "write the report as JSON")
	list := fs.Bool("list", false, "list the checks and exit")
	examples := fs.String("examples", "", "JSON `file` with config, calls, env, model and writes; flags are added to it")
	config := fs.String("config", "", "config block as a JSON `object`, with secrets as plain strings")
	fs.StringVar(&cfg.Model, "model", "", "`ID` of the model to query (default: the first one listed)")
	fs.DurationVar(&cfg.StartBudget, "start-budget", 0, "time limit for the handshake (default 5s)")
	fs.DurationVar(&cfg.Slack, "slack", 0, "time added to every time limit, for busy machines")
	fs.IntVar(&cfg.Restarts, "restarts", 0, "number of starts and stops (default 50, or as many as fit into 2s)")
	var calls []plugintest.Call
	fs.Func("call", "example `[BEHAVIOUR:][NAMESPACE.]TOOL[=ARGUMENTS]`, behaviour answers, waits, floods, crashes or leaves; repeatable", func(s string) error {
		c, err := parseCall(s)
		calls = append(calls, c)
		return err
	})
	var writes []string
	fs.Func("writes", "absolute `folder` that the plugin may write to besides its own, as with permissions { write }; repeatable", func(s string) error {
		writes = append(writes, s)
		return nil
	})
	env := map[string]string{}
	fs.Func("env", "environment `NAME=VALUE` for the plugin; repeatable", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return errors.New("use NAME=VALUE")
		}
		env[name] = value
		return nil
	})
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return conforms
		}
		return misused
	}
	if *list {
		return writeList(stdout)
	}
	if *examples != "" {
		flags := cfg
		var err error
		if cfg, err = plugintest.ReadConfig(*examples); err != nil {
			fmt.Fprintln(stderr, "gantry-plugintest:", err)
			return misused
		}
		cfg.StartBudget, cfg.Slack, cfg.Restarts = flags.StartBudget, flags.Slack, flags.Restarts
		if flags.Model != "" {
			cfg.Model = flags.Model
		}
	}
	if *config != "" {
		cfg.Config = json.RawMessage(*config)
	}
	cfg.Calls, cfg.Writes = append(cfg.Calls, calls...), append(cfg.Writes, writes...)
	if cfg.Env == nil {
		cfg.Env = env
	}
	for name, value := range env {
		cfg.Env[name] = value
	}
	if fs.NArg() > 0 {
		cfg.Path, cfg.Args = fs.Arg(0), append(cfg.Args, fs.Args()[1:]...)
	}
	if err := cfg.Validate(); err != nil {
		fmt.Fprintf(stderr, "gantry-plugintest: %v\nTry gantry-plugintest --help.\n", err)
		return misused
	}
	report := plugintest.Run(ctx, cfg)
	if err := write(stdout, report, *asJSON); err != nil {
		fmt.Fprintln(stderr, "gantry-plugintest: write report:", err)
		return fails
	}
	if !report.OK() {
		return fails
	}
	return conforms
}

func write(w io.Writer, r *plugintest.Report, asJSON bool) error {
	if !asJSON {
		return r.WriteText(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

func writeList(w io.Writer) int {
	for _, c := range plugintest.Checks() {
		kind := ""
		if c.Kind != "" {
			kind = " (" + c.Kind + " plugins)"
		}
		fmt.Fprintf(w, "%-20s %s%s\n", c.ID, c.Why, kind)
	}
	return conforms
}

// parseCall parses an example such as "waits:files.search={...}".
func parseCall(s string) (plugintest.Call, error) {
	var c plugintest.Call
	head, args, given := strings.Cut(s, "=")
	if does, tool, ok := strings.Cut(head, ":"); ok {
		c.Does, head = plugintest.Behaviour(does), tool
	}
	if namespace, tool, ok := strings.Cut(head, "."); ok {
		c.Namespace, head = namespace, tool
	}
	if c.Tool = head; head == "" {
		return c, errors.New("use [BEHAVIOUR:][NAMESPACE.]TOOL[=ARGUMENTS]")
	}
	if given {
		if !json.Valid([]byte(args)) {
			c.Text = args // for a freeform tool
			return c, nil
		}
		c.Arguments = json.RawMessage(args)
	}
	return c, nil
}
