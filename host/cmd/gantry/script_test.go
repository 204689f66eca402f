package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/gantry-agent/gantry/host/internal/cli"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// TestMain makes this binary gantry and small plugins of it, each under its own name. Only the launcher is the real one.
func TestMain(m *testing.M) {
	if runtime.GOOS == "linux" { // a plugin's process sees nothing of /tmp, and some here are scripts that start another program
		_ = os.Setenv("TMPDIR", "/var/tmp")
	}
	testscript.Main(m, map[string]func(){
		"gantry":                   func() { os.Exit(cli.Main("0.1.0", "", os.Args[1:])) },
		"gantry-tool-shell":        func() { tool.Main(shell()) },
		"gantry-provider-scripted": func() { provider.Main(scripted()) },
		"weather":                  func() { tool.Main(weather()) },
		"cloud":                    func() { provider.Main(cloud()) },
		"noisy":                    noisy,
	})
}

func TestScripts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("plugins are supervised on Linux only")
	}
	t.Parallel()
	distinguish(t)
	launcher := realLauncher(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error { return setup(e, launcher) },
		Condition: func(cond string) (bool, error) {
			if cond == "launcher" {
				return launcher != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "answer": answer, "variant": variant},
	})
}

// distinguish makes each program a content of its own, as plugins have: what one says about itself is remembered by it.
func distinguish(t *testing.T) {
	for _, name := range []string{"gantry-tool-shell", "gantry-provider-scripted", "weather", "cloud", "noisy"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		// They are links to this very binary, which must stay as it is.
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fresh := path + ".new"
		if err := os.WriteFile(fresh, append(content, name...), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(fresh, path); err != nil {
			t.Fatal(err)
		}
	}
}

// realLauncher finds gantry-launch among the built binaries; "" when there is none.
func realLauncher(t *testing.T) string {
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = "../../../bin"
	}
	path, err := filepath.Abs(filepath.Join(dir, "gantry-launch"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

func setup(e *testscript.Env, launcher string) error {
	// Not below the script's own folder: sockets need short paths.
	home, err := os.MkdirTemp("/tmp", "gs")
	if err != nil {
		return err
	}
	e.Defer(func() { _ = os.RemoveAll(home) })
	e.Setenv("GANTRY_HOME", home)
	e.Setenv("GANTRY_SYSTEM_CONFIG", "-")
	e.Setenv("HOME", e.WorkDir)
	e.Setenv("SHELL", "/bin/sh")
	if launcher == "" {
		return nil
	}
	gantry, err := exec.LookPath("gantry")
	if err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(gantry), "gantry-launch")
	if err := os.Symlink(launcher, beside); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// status N COMMAND... runs a command and wants this exit status; streams are left for stdout and stderr.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

// answer N LINE COMMAND... runs a command on a terminal of its own, types the line at each question, and wants this exit
// status. What was shown is in the file screen.
func answer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: answer N LINE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), os.Environ()
	for _, name := range []string{"PATH", "HOME", "SHELL", "GANTRY_HOME", "GANTRY_SYSTEM_CONFIG"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	terminal, err := pty.Start(cmd)
	ts.Check(err)
	defer terminal.Close()
	var screen strings.Builder
	asked := 0
	for b := make([]byte, 1024); ; {
		n, err := terminal.Read(b)
		screen.Write(b[:n])
		for ; strings.Count(screen.String(), "[y/N] ") > asked; asked++ {
			_, err := terminal.WriteString(args[1] + "\n")
			ts.Check(err)
		}
		if err != nil {
			break // EIO is how a terminal ends
		}
	}
	_ = cmd.Wait() // its status is looked at
	shown := strings.ReplaceAll(screen.String(), "\r", "")
	ts.Logf("[screen]\n%s", shown)
	ts.Check(os.WriteFile(ts.MkAbs("screen"), []byte(shown), 0o644))
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
	if asked == 0 {
		ts.Fatalf("nothing was asked")
	}
}

// variant FILE NAME=VALUE... writes a program that is the plugin weather with these changes. Other changes make another
// content.
func variant(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: variant FILE NAME=VALUE...")
	}
	var text strings.Builder
	text.WriteString("#!/bin/sh\n")
	program := "weather"
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(a, "=")
		if name == "program" {
			program = value
			continue
		}
		fmt.Fprintf(&text, "export WEATHER_%s='%s'\n", strings.ToUpper(name), value)
	}
	fmt.Fprintf(&text, "exec %s \"$@\"\n", program)
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, []byte(text.String()), 0o755))
}

// shell stands for the built-in shell.
func shell() tool.Plugin {
	return tool.Plugin{Name: "shell", Version: "0.1.0", Description: "Runs commands.", Tools: []tool.Tool{
		tool.New("run", "Runs nothing.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) { return tool.Text("ran"), nil }),
	}}
}

type weatherConfig struct {
	Units string `json:"units" doc:"Units of all reports." default:"metric" enum:"metric,imperial"`
	Days  int    `json:"days" doc:"How many days." default:"3"`
}

type weatherArgs struct {
	City string `json:"city" jsonschema:"name of the city"`
}

// weather is a plugin whose manifest follows its environment, as that of another version would differ.
func weather() tool.Plugin {
	set := func(name, otherwise string) string {
		if v := os.Getenv("WEATHER_" + name); v != "" {
			return v
		}
		return otherwise
	}
	p := tool.Plugin{
		Name: "weather", Version: set("VERSION", "1.0.0"), Description: set("DESCRIPTION", "Weather reports."), Config: &weatherConfig{},
		Instructions: "Ask for one city at a time.",
	}
	if c := os.Getenv("WEATHER_CAPABILITIES"); c != "" {
		p.Capabilities = strings.Split(c, ",")
	}
	p.Tools = []tool.Tool{tool.New("forecast", "Forecasts the weather of a city.", func(_ context.Context, _ *tool.Call, in weatherArgs) (*tool.Result, error) {
		if started := os.Getenv("WEATHER_STARTED"); started != "" {
			if err := meet(started, os.Getenv("WEATHER_UNTIL")); err != nil {
				return nil, err
			}
		}
		return tool.Text(set("SAYS", "sunny") + " in " + in.City), nil
	}, tool.ReadOnly())}
	return p
}

// meet tells through one named pipe that a call has begun, and waits at another until it may end.
func meet(started, until string) error {
	if err := os.WriteFile(started, []byte("started\n"), 0); err != nil {
		return err
	}
	_, err := os.ReadFile(until)
	return err
}

// noisy prints where the handshake is expected, and more on standard error.
func noisy() {
	fmt.Println("listening on :8080")
	fmt.Fprintln(os.Stderr, "noisy: no configuration found")
	os.Exit(3)
}

type noConfig struct{}

// scripted stands for the built-in provider: it asks for the tool that the task names with "use TOOL", and then says what
// it heard.
func scripted() provider.Plugin {
	return provider.Plugin{Name: "scripted", Version: "0.1.0", Description: "Plays a part.", Config: &noConfig{},
		New: func(context.Context, provider.Env) (provider.Provider, error) { return player{}, nil }}
}

type cloudConfig struct {
	Key string `json:"api_key" doc:"The key." required:"true"`
}

// cloud is a provider that needs a key.
func cloud() provider.Plugin {
	return provider.Plugin{Name: "cloud", Version: "2.0.0", Description: "Models far away.", Config: &cloudConfig{},
		New: func(_ context.Context, env provider.Env) (provider.Provider, error) {
			if env.Config.(*cloudConfig).Key == "wrong" {
				return nil, &contract.Diagnostic{Summary: "the key is wrong", Path: []contract.Step{contract.Name("api_key")}, Next: "look it up"}
			}
			return player{}, nil
		}}
}

type player struct{}

func (player) Models(context.Context) ([]llm.ModelRow, error) {
	price := 1.25
	return []llm.ModelRow{
		{ID: "scripted", ContextWindow: 128_000, MaxOutputTokens: 8000, InputModalities: []string{"text"}, ToolKinds: []string{"function"}},
		{ID: "grand", ContextWindow: 1_000_000, InputModalities: []string{"text", "image"}, ReasoningEfforts: []string{"low", "high"}, Prices: llm.Prices{Input: &price}},
	}, nil
}

func (player) Prepare(_ context.Context, r *llm.Request) (*provider.Prepared, error) {
	switch r.Model {
	case "grand":
		return nil, grpcstatus.Error(codes.Unimplemented, "unknown method Prepare")
	case "tiny":
		return nil, &llm.Error{Message: "tiny takes no <words>", Next: "say less"}
	}
	return &provider.Prepared{
		Method: "POST", URL: "https://play.example/v1", Headers: []provider.Header{{Name: "Accept", Value: "text/plain"}, {Name: "Accept", Value: "*/*"}},
		Body: []byte(r.Messages[len(r.Messages)-1].Text()),
	}, nil
}

func (player) Stream(_ context.Context, r *provider.StreamRequest, emit func(llm.Event) error) error {
	last := r.Messages[len(r.Messages)-1]
	text := ""
	for _, p := range last.Parts {
		if t, ok := p.(*llm.Text); ok {
			text += t.Text
		}
	}
	if name, ok := strings.CutPrefix(text, "use "); ok && last.Role == llm.RoleUser {
		call := llm.ToolCall{ID: "c1", Name: name, Input: `{"city":"Oslo"}`}
		return play(emit, llm.StepStart{}, llm.BlockStart{Kind: llm.BlockToolInput, ID: "c1", Name: name},
			llm.BlockDelta{Kind: llm.BlockToolInput, ID: "c1", Text: call.Input}, llm.BlockEnd{Kind: llm.BlockToolInput, ID: "c1"},
			llm.ToolCallDone{Call: call}, llm.StepFinish{Reason: llm.FinishToolCalls}, llm.Finish{Reason: llm.FinishToolCalls})
	}
	return play(emit, llm.StepStart{}, llm.BlockStart{Kind: llm.BlockText, ID: "t"}, llm.BlockDelta{Kind: llm.BlockText, ID: "t", Text: "done"},
		llm.BlockEnd{Kind: llm.BlockText, ID: "t"}, llm.StepFinish{Reason: llm.FinishStop}, llm.Finish{Reason: llm.FinishStop})
}

func play(emit func(llm.Event) error, events ...llm.Event) error {
	for _, e := range events {
		if err := emit(e); err != nil {
			return err
		}
	}
	return nil
}
