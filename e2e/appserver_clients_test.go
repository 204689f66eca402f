package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// The viewer in the guide shows a terminal of another process, and takes control of it while it has input.
func TestViewerOfTheGuide(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	guide, err := os.ReadFile("../docs/guides/app-server.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile("(?ms)^```python viewer\n(.*?)^```$").FindSubmatch(guide)
	if source == nil {
		t.Fatal("the guide has no viewer")
	}
	r := rig.New(t, relayedScript)
	addOdd(t, r, "waits", "waits", "")
	run := r.Start("exec", "--events", "start it")
	r.Until("the call runs", func() bool { return exists(r.Dir, "go.waiting") })
	r.Write("viewer.py", string(source[1]))
	cmd := exec.CommandContext(t.Context(), python, filepath.Join(r.Dir, "viewer.py"), threads(t, r)[0].ID)
	cmd.Dir, cmd.WaitDelay = r.Dir, time.Second
	cmd.Env = append(r.Env, "PATH="+r.Bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shows := func(text string) {
		t.Helper()
		r.Until("the viewer shows "+text, func() bool {
			b, _ := os.ReadFile(out.Name())
			return strings.Contains(string(b), text)
		})
	}
	shows("ready\r\n")
	run.Sees(`"session.controlled"`)
	r.Write("go", "")
	r.Until("the call beside the one that waits has run", func() bool { return exists(r.Dir, "beside") })
	if _, err := in.Write([]byte("by hand\n")); err != nil {
		t.Fatal(err)
	}
	shows("24 80 by hand\r\n")
	if b, _ := os.ReadFile(out.Name()); strings.Contains(string(b), "by agent") {
		t.Errorf("the agent has typed while the viewer had control: %q", b)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	shows("24 80 by agent\r\n")
	r.Until("exec waits again", func() bool { return exists(r.Dir, "end.waiting") })
	r.Write("end", "")
	if res := run.Wait(); res.Code != 0 {
		t.Errorf("exec: exit %d: %s", res.Code, res.Stderr)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(out.Name()); !strings.HasSuffix(string(b), "]\n") {
		t.Errorf("the viewer ends with %q", b)
	}
}

// The clients in the guide work: they have a command approved or declined, and print the answer.
func TestAppServerClientsOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guides/app-server.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(\\w+) client\n(.*?)^```$").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) != 3 {
		t.Fatalf("the guide has %d clients", len(blocks))
	}
	for _, b := range blocks {
		language, source := b[1], b[2]
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var command []string
			switch language {
			case "go":
				path := filepath.Join(dir, "client.go")
				if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
					t.Fatal(err)
				}
				build := exec.Command("go", "build", "-o", filepath.Join(dir, "client"), path)
				build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=")
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				command = []string{filepath.Join(dir, "client")}
			case "python", "typescript":
				program, name := "python3", "client.py"
				if language == "typescript" {
					program, name = "node", "client.mjs"
				}
				found, err := exec.LookPath(program)
				if err != nil {
					t.Skipf("%s is not installed", program)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o644); err != nil {
					t.Fatal(err)
				}
				command = []string{found, filepath.Join(dir, name)}
			default:
				t.Fatalf("a client in %s", language)
			}
			for answer, want := range map[string]string{"y\n": "It said: hello", "n\n": "It said: rejected by user"} {
				r := rig.New(t, `
[[step]]
expect = [{ user = "greet me" }]
do = [{ call = "exec_command", id = "c1", args = { cmd = "echo hello", login = false } }]
[[step]]
capture = [{ pattern = '(?P<said>hello|rejected by user)' }]
do = [{ text = "It said: ${said}" }]
`)
				cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], "greet me")...)
				cmd.Dir, cmd.WaitDelay = r.Dir, time.Second
				// What it starts is a program that writes down both sides.
				programs, sent, received := t.TempDir(), filepath.Join(r.Home, "sent"), filepath.Join(r.Home, "received")
				recorder := fmt.Sprintf("#!/bin/bash\nset -o pipefail\ntee %s | %s \"$@\" | tee %s\n", sent, filepath.Join(r.Bin, r.Host), received)
				if err := os.WriteFile(filepath.Join(programs, "gantry"), []byte(recorder), 0o755); err != nil {
					t.Fatal(err)
				}
				cmd.Env = append(r.Env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
				cmd.Stdin = strings.NewReader(answer)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "$ /bin/bash -c 'echo hello'") || !strings.Contains(string(out), want) {
					t.Errorf("answer %q: %v\n%s", answer, err, out)
				}
				matchSchemas(t, sent, received)
			}
		})
	}
}

// matchSchemas checks the messages of a client and of its server, which are lines of two files. What the client has answered is checked
// after the questions.
func matchSchemas(t *testing.T, sent, received string) {
	t.Helper()
	check := rig.NewChecked()
	lines := func(path string, do func(line []byte, request bool) error) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var m rig.Message
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			if err := do(line, m.Method != ""); err != nil {
				t.Errorf("a message does not match its schema: %v", err)
			}
		}
	}
	asked, answered := 0, 0
	lines(sent, func(line []byte, request bool) error {
		if !request {
			return nil
		}
		asked++
		return check.Sent(line)
	})
	lines(received, func(line []byte, _ bool) error {
		_, err := check.Received(line)
		return err
	})
	lines(sent, func(line []byte, request bool) error {
		if request {
			return nil
		}
		answered++
		return check.Sent(line)
	})
	if asked < 3 || answered < 1 {
		t.Errorf("%d requests and notifications, %d answers", asked, answered)
	}
}
