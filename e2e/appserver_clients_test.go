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
				if err != nil || !strings.Contains(string(out), "$ echo hello") || !strings.Contains(string(out), want) {
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
