//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/plugintest"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// asPlugin makes the test binary be a small plugin.
const asPlugin = "GANTRY_PLUGINTEST_PLUGIN"

type args struct {
	Name string `json:"name"`
}

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		tool.Main(tool.Plugin{Name: "greeter", Version: "1.0.0", Tools: []tool.Tool{
			tool.New("greet", "Greets.", func(_ context.Context, _ *tool.Call, in args) (*tool.Result, error) {
				return tool.Text("hello " + in.Name), nil
			}, tool.ReadOnly(), tool.ParallelSafe()),
		}})
	}
	os.Exit(m.Run())
}

func exe(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExitCodes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho listening on :8080\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plugin := []string{"--env", asPlugin + "=1", "--restarts", "3", "--slack", "4s", "--start-budget", "20s"}
	tests := []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{"a failing example", append(plugin, "--call", `greet={}`, exe(t)), fails, "fail  call.example", ""},
		{"no plugin", []string{broken}, fails, "listening on :8080", ""},
		{"no binary", nil, misused, "", "no binary was specified"},
		{"unknown flag", []string{"--loud"}, misused, "", "Usage: gantry-plugintest"},
		{"bad example", []string{"--call", "=x", "./x"}, misused, "", "TOOL"},
		{"bad behaviour", []string{"--call", "dances:greet", "./x"}, misused, "", `"dances"`},
		{"bad variable", []string{"--env", "x", "./x"}, misused, "", "NAME=VALUE"},
		{"bad config", []string{"--config", "[]", "./x"}, misused, "", "JSON object"},
		{"no examples there", []string{"--examples", "nowhere.json"}, misused, "", "nowhere.json"},
		{"help", []string{"--help"}, conforms, "", "--config"},
		{"list", []string{"--list"}, conforms, "call.cancel", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if got := run(t.Context(), tt.args, &stdout, &stderr); got != tt.status {
				t.Errorf("exit status %d, want %d", got, tt.status)
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("want %q on stdout and %q on stderr; got\n%s\n%s", tt.stdout, tt.stderr, stdout.String(), stderr.String())
			}
		})
	}
}

func TestReportAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "examples.json")
	examples := `{"path":` + string(mustMarshal(t, exe(t))) + `,"env":{"` + asPlugin + `":"1"},"calls":[{"tool":"greet","arguments":{"name":"you"}}]}`
	if err := os.WriteFile(file, []byte(examples), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	if got := run(t.Context(), []string{"--json", "--examples", file, "--restarts", "3", "--slack", "4s", "--start-budget", "20s"}, &stdout, &stderr); got != conforms {
		t.Fatalf("exit status %d: %s%s", got, stdout.String(), stderr.String())
	}
	var r plugintest.Report
	if err := json.Unmarshal([]byte(stdout.String()), &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "greeter" || r.Kind != "tool" || len(r.Checks) != len(plugintest.Checks()) || !r.OK() {
		t.Errorf("report %+v", r)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseCall(t *testing.T) {
	tests := []struct {
		in   string
		want plugintest.Call
	}{
		{"now", plugintest.Call{Tool: "now"}},
		{`now={"a":"b=c:d.e"}`, plugintest.Call{Tool: "now", Arguments: json.RawMessage(`{"a":"b=c:d.e"}`)}},
		{"waits:now", plugintest.Call{Tool: "now", Does: plugintest.Waits}},
		{"crashes:files.read={}", plugintest.Call{Tool: "read", Namespace: "files", Does: plugintest.Crashes, Arguments: json.RawMessage(`{}`)}},
		{"patch=*** Begin Patch", plugintest.Call{Tool: "patch", Text: "*** Begin Patch"}},
	}
	for _, tt := range tests {
		got, err := parseCall(tt.in)
		if err != nil || string(mustMarshal(t, got)) != string(mustMarshal(t, tt.want)) {
			t.Errorf("parseCall(%q) = %+v, %v, want %+v", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"", "waits:", "=x"} {
		if c, err := parseCall(in); err == nil {
			t.Errorf("parseCall(%q) = %+v, want an error", in, c)
		}
	}
}
