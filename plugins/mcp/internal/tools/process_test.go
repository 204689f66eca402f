//go:build unix

package tools

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/process/processtest"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// A server's process is ended step by step, and nothing of it is left.
func TestEndOfAProcess(t *testing.T) {
	t.Parallel()
	const child = `sleep 1000 <&- & echo $! >"$0"; `
	for _, tc := range []struct {
		name, script string
		alone        bool   // it ends by itself
		says         string // after its first line
		explains     string
	}{
		{"at the end of its input", child + `echo up; cat >/dev/null; echo end`, false, "end\n", ""},
		{"when it is asked to", `trap 'echo term; exit 0' TERM; ` + child + `echo up; while :; do wait; done`, false, "term\n", ""},
		{"killed", `trap 'echo term' TERM; ` + child + `echo up; while :; do wait; done`, false, "term\n", ""},
		{"by itself", `echo up; echo why >&2; exit 7`, true, "", "its process exited with code 7; its standard error ends with:\nwhy"},
		{"by a signal", `echo up; kill -9 $$`, true, "", "its process was ended by the signal 9 (killed)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := processtest.Start(t, processtest.Options{})
			file := filepath.Join(t.TempDir(), "child")
			h.Declare(contract.ProcessName("server", "s"), &gantryv1.SpawnRequest{
				Argv: []string{"sh", "-c", tc.script, file}, Cwd: t.TempDir(), Env: map[string]string{"PATH": os.Getenv("PATH")},
			})
			link, err := started(h.Broker("").Declared, hclog.NewNullLogger(), "s", nil)(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			out := bufio.NewReader(link.Transport.(*transport.Stdio).Out)
			if line, err := out.ReadString('\n'); err != nil || line != "up\n" {
				t.Fatalf("%q, %v", line, err)
			}
			rest := make(chan string)
			go func() { // ends with the output, for which the test waits
				b, _ := io.ReadAll(out)
				rest <- string(b)
			}()
			if !tc.alone {
				link.Close()
			}
			if got := <-rest; got != tc.says {
				t.Errorf("it has written %q, want %q", got, tc.says)
			}
			for _, when := range []string{"before", "after"} {
				if got := link.Explain(); got != tc.explains {
					t.Errorf("%s Close, it says %q, want %q", when, got, tc.explains)
				}
				link.Close()
			}
			b, err := os.ReadFile(file)
			if tc.alone {
				return
			}
			pid, err2 := strconv.Atoi(strings.TrimSpace(string(b)))
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(30 * time.Second); syscall.Kill(pid, 0) == nil; { // it has been killed, but may not be gone yet
				if time.Now().After(deadline) {
					t.Fatal("a child of the process is left")
				}
				runtime.Gosched()
			}
		})
	}
}
