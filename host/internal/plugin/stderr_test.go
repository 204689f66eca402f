//go:build linux

package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/plugin"
)

// entry is one entry of the host's log.
type entry struct {
	Level   string `json:"@level"`
	Message string `json:"@message"`
	Plugin  string `json:"plugin"`
	Module  string `json:"@module"`
}

func entries(t *testing.T, log string) (es []entry) {
	t.Helper()
	for line := range strings.Lines(log) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		es = append(es, e)
	}
	return es
}

func TestStderrCantHarmTheHost(t *testing.T) {
	hostile := strings.Join([]string{
		"plain",
		`{"@message": 5}`,
		`{"@level": {"a":1}, "@message": "x", "@timestamp": []}`,
		`{"@level":"info","@message":"from hclog","@timestamp":"2026-01-02T03:04:05.000000Z","k":1}`,
		`{"level":"WARN","msg":"from slog","time":"2026-01-02T03:04:05Z"}`,
		strings.Repeat("y", 1<<20),
		"\x00\xff\xfe\x1b[2Jbinary \x07 junk",
		"[ERROR] with a prefix",
		strings.Repeat("[", 1<<16),
		"",
	}, "\n")
	file := filepath.Join(t.TempDir(), "stderr")
	if err := os.WriteFile(file, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	h := build(t)
	p := h.add(spec(t, "stderr", "STDERR_FILE="+file))
	l := acquire(t, p)
	must(t, l, "stderr", "last words\n")
	l.Release()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[entry]bool{
		{"debug", "plain", "w", "w"}:                                             false,
		{"debug", `{"@message": 5}`, "w", "w"}:                                   false,
		{"info", "from hclog", "w", "w"}:                                         false,
		{"warn", "from slog", "w", "w"}:                                          false,
		{"error", "[ERROR] with a prefix", "w", "w"}:                             false,
		{"debug", "last words", "w", "w"}:                                        false,
		{"debug", `\u0000` + "\uFFFD" + `\u001b[2Jbinary \u0007 junk`, "w", "w"}: false,
	}
	for _, e := range entries(t, h.log.String()) {
		if strings.ContainsAny(e.Message, "\x00\x1b\x07") {
			t.Errorf("control characters in the log: %q", e.Message)
		}
		if _, ok := want[e]; ok {
			want[e] = true
		}
	}
	for e, seen := range want {
		if !seen {
			t.Errorf("not in the log: %+v", e)
		}
	}
	tail := p.Stderr(100)
	for _, line := range tail {
		if len(line) > 5000 {
			t.Errorf("a line of %d bytes is kept", len(line))
		}
	}
}

func TestWhatAPluginPrintsIsRedacted(t *testing.T) {
	h := build(t, func(c *plugin.Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "•••") }
	})
	p := h.add(spec(t, "serve"))
	l := acquire(t, p)
	must(t, l, "stderr", "the key is hunter2\n"+`{"level":"info","msg":"hunter2","k":"hunter2"}`+"\npanic: hunter2\n")
	_, err := command(t.Context(), l, "exit", "1")
	l.Release()
	e, _ := asError(err)
	if all := h.log.String() + explain(err) + strings.Join(e.Report, ""); strings.Contains(all, "hunter2") || !strings.Contains(all, "•••") {
		t.Errorf("a secret is shown: %s", all)
	}
}

func TestTheLibrarysBrokerIsNeverOpened(t *testing.T) {
	h := build(t)
	p := h.add(spec(t, "serve"))
	l := acquire(t, p)
	must(t, l, "stderr", "first\n")
	must(t, l, "echo", "1")
	l.Release()
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(p.Stderr(1000), "\n")
	if !strings.Contains(all, "first") || strings.Contains(all, "the broker was opened") {
		t.Errorf("stderr:\n%s", all)
	}
}
