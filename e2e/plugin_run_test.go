package e2e_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type commandArgs struct {
	File string `json:"file"`
}

// commands is a plugin with a command that has side effects and one that has none.
func commands() tool.Plugin {
	process := rand.Text()
	return tool.Plugin{
		Name: "commands", Version: "1.0.0", Description: "Has commands.",
		Commands: []tool.Command{
			tool.NewCommand("status", "Shows the status.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
				return map[string]string{"status": "ready"}, nil
			}),
			tool.NewCommand("process", "Names the process.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
				return map[string]string{"process": process}, nil
			}),
			tool.NewCommand("publish", "Publishes a file.", func(_ context.Context, _ *tool.CommandCall, in commandArgs) (any, error) {
				if in.File == "" {
					return nil, errors.New("the file has no name")
				}
				if err := os.WriteFile(in.File, []byte("published"), 0o644); err != nil {
					return nil, err
				}
				return map[string]string{"published": filepath.Base(in.File)}, nil
			}, tool.SideEffects()),
		},
	}
}

// A plugin's command with side effects runs only when the user agrees: on the terminal, or with --yes.
func TestCommandSideEffectsAreEnforced(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "")
	addOdd(t, r, "desk", "commands", "")
	file := filepath.Join(r.Dir, "published")
	input := `{"file":"` + file + `"}`

	if res := r.OK("plugin", "run", "desk", "status"); res.Stdout != "{\n  \"status\": \"ready\"\n}\n" || strings.Contains(res.Stderr, "side effects") {
		t.Errorf("a command without side effects: %q, %q", res.Stdout, res.Stderr)
	}
	res := r.Gantry("plugin", "run", "desk", "publish", input)
	for _, want := range []string{"gantry.hcl:", `the command "publish" of plugin "desk" has side effects: not confirmed`, "Next: confirm it on a terminal, or with --yes"} {
		if res.Code != 1 || !strings.Contains(res.Stderr, want) {
			t.Errorf("without a terminal: exit %d, no %q in\n%s", res.Code, want, res.Stderr)
		}
	}
	for _, answer := range []string{"cancel", "run"} {
		if exists(r.Dir, "published") {
			t.Fatal("it ran although it was not confirmed")
		}
		run := r.Terminal("plugin", "run", "desk", "publish", input)
		run.Sees("answer: ")
		if shown := run.Output(); !strings.Contains(shown, `Run the command "publish" of plugin "desk"? It has side effects.`) || !strings.Contains(shown, "Publishes a file.") {
			t.Errorf("the question is\n%s", shown)
		}
		run.Type(answer + "\n")
		if res := run.Wait(); (res.Code == 0) != (answer == "run") {
			t.Errorf("answered %s: exit %d\n%s", answer, res.Code, res.Stdout)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if res := r.OK("plugin", "run", "--yes", "desk", "publish", input); !strings.Contains(res.Stdout, `"published": "published"`) || !exists(r.Dir, "published") {
		t.Errorf("with --yes: %q", res.Stdout)
	}

	if res := r.Gantry("plugin", "run", "--yes", "desk", "publish"); res.Code != 1 || !strings.Contains(res.Stderr, "missing field `file`") {
		t.Errorf("an error of the plugin's: exit %d\n%s", res.Code, res.Stderr)
	}
	if res := r.Gantry("plugin", "run", "desk", "publsh"); res.Code != 1 || !strings.Contains(res.Stderr, `has no command "publsh"`) {
		t.Errorf("a command that is not declared: exit %d\n%s", res.Code, res.Stderr)
	}
	if res := r.Gantry("plugin", "run", "desk", "publish", "[]"); res.Code != 2 || !strings.Contains(res.Stderr, "INPUT is not a JSON object") {
		t.Errorf("wrong input: exit %d\n%s", res.Code, res.Stderr)
	}
	if shown := r.OK("plugin", "inspect", "desk").Stdout; !strings.Contains(shown, "Command publish (has side effects)") {
		t.Errorf("inspect shows\n%s", shown)
	}
	unlock(t, r)
	if shown := r.OK("plugin", "lock", "--yes", "desk"); !strings.Contains(shown.Stdout+shown.Stderr, "commands with side effects, which run only when you confirm it: publish") {
		t.Errorf("consent does not show it:\n%s%s", shown.Stdout, shown.Stderr)
	}
}
