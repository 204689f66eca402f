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

type shopArgs struct {
	Name     string   `json:"name"`
	Greeting string   `json:"greeting,omitempty"`
	List     []string `json:"list,omitempty"`
	Remove   bool     `json:"remove,omitempty"`
}

type orderArgs struct {
	Item   string            `json:"item" jsonschema:"What to order."`
	Pieces int               `json:"pieces"`
	Extra  []string          `json:"extra,omitempty"`
	Notes  map[string]string `json:"notes,omitempty"`
	Gift   bool              `json:"gift_wrap,omitempty"`
	Home   string            `json:"home,omitempty"`
	More   *struct {
		Item string `json:"item"`
	} `json:"more,omitempty"`
}

// commands is a plugin with a command that has side effects and one that has none.
func commands() tool.Plugin {
	process := rand.Text()
	cfg := &struct {
		Greeting string `json:"greeting" default:"hello" enum:"hello,hi" doc:"How it greets."`
		Shops    []struct {
			Name string            `json:"name" label:"true" doc:"Name of the shop."`
			Env  map[string]string `json:"env" doc:"Variables."`
			List []string          `json:"list" doc:"What to buy."`
		} `json:"shop" doc:"A shop."`
	}{}
	return tool.Plugin{
		Name: "commands", Version: "1.0.0", Description: "Has commands.", Config: cfg,
		Commands: []tool.Command{
			tool.NewCommand("status", "Shows the status.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
				return map[string]string{"status": "ready"}, nil
			}),
			tool.NewCommand("shop", "Adds a shop.", func(_ context.Context, c *tool.CommandCall, in shopArgs) (any, error) {
				if in.Remove {
					c.Remove("shop", in.Name)
					return "removed", nil
				}
				if in.Greeting != "" {
					if err := c.Set(in.Greeting, "greeting"); err != nil {
						return nil, err
					}
				}
				shop := map[string]any{"list": in.List, "env": map[string]any{"USER": tool.FromEnv("HOME")}}
				return "added", c.Set(shop, append([]string{"shop"}, strings.Split(in.Name, "/")...)...)
			}),
			tool.NewCommand("order", "Orders an item.", func(_ context.Context, _ *tool.CommandCall, in orderArgs) (any, error) {
				return map[string]orderArgs{"order": in}, nil
			}),
			tool.NewCommand("stock", "Lists what there is.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
				return []map[string]any{{"item": "tea\x1b[2J", "pieces": 3}, {"item": "milk", "pieces": 12}}, nil
			}),
			tool.NewCommand("greet", "Greets.", func(context.Context, *tool.CommandCall, struct{}) (any, error) {
				return map[string]string{"message": "hello"}, nil
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

// `gantry LABEL COMMAND` runs a plugin's command, with flags and arguments from the schema of its input, help and completion. gantry's
// own commands come first.
func TestCommandsByLabel(t *testing.T) {
	t.Parallel()
	r := rig.New(t, finished)
	addOdd(t, r, "desk", "commands", "")
	order := func(args ...string) string {
		t.Helper()
		return strings.Join(strings.Fields(r.OK(append([]string{"desk", "order", "--json"}, args...)...).Stdout), "")
	}
	for want, args := range map[string][]string{
		`{"item":"tea","pieces":3}`: {"tea", "3"},
		`{"extra":["sugar","milk"],"gift_wrap":true,"home":"here","item":"a b","pieces":3}`: {"--pieces", "3", "--gift-wrap", "--input-home", "here", "--extra", "sugar", "a b", "--extra=milk"},
		`{"extra":["--now","x"],"item":"tea","pieces":3}`:                                   {"tea", "3", "--", "--now", "x"},
		`{"item":"tea","notes":{"a":"1=2","b":""},"pieces":3}`:                              {"--notes", "a=1=2", "--notes", "b=", "tea", "3"},
		`{"item":"tea","more":{"item":"x"},"pieces":4}`:                                     {"--input", `{"item":"x","pieces":4}`, "--item", "tea", "--more", `{"item":"x"}`},
	} {
		if got := order(args...); got != `{"order":`+strings.ReplaceAll(want, " ", "")+`}` {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
	for want, args := range map[string][]string{
		"ITEM is missing": {"order"}, "PIECES is missing": {"order", "tea"}, `invalid value "x" for PIECES: it is not of the type integer`: {"order", "tea", "x"},
		`invalid value "1.5" for --pieces`: {"order", "--pieces", "1.5", "tea"}, `invalid value "a" for --notes: write it as NAME=VALUE`: {"order", "--notes", "a"},
		`unknown flag "--nope"`: {"order", "--nope"}, `unexpected argument "x"`: {"status", "x"}, "--input is not a JSON object": {"order", "--input", "[]"},
		"it is not JSON": {"order", "--more", "{"}, `unknown command "ordr"`: {"ordr"},
	} {
		if res := r.Gantry(append([]string{"desk"}, args...)...); res.Code != 2 || !strings.Contains(res.Stderr, want) {
			t.Errorf("%q: exit %d, no %q in\n%s", args, res.Code, want, res.Stderr)
		}
	}
	if res := r.Gantry("dsk", "order"); res.Code != 2 || !strings.Contains(res.Stderr, `unknown command "dsk"`) {
		t.Errorf("a label that there is not: exit %d\n%s", res.Code, res.Stderr)
	}
	for want, args := range map[string][]string{
		"hello\n": {"desk", "greet"}, "status  ready\n": {"desk", "status"}, "ITEM    PIECES\ntea[2J  3\nmilk    12\n": {"desk", "stock"},
		"{\n  \"status\": \"ready\"\n}\n": {"desk", "status", "--json"},
	} {
		if out := r.OK(args...).Stdout; out != want {
			t.Errorf("%q prints %q, want %q", args, out, want)
		}
	}
	if res := r.Gantry("desk", "publish", filepath.Join(r.Dir, "published")); res.Code != 1 || !strings.Contains(res.Stderr, "has side effects: not confirmed") {
		t.Errorf("side effects: exit %d\n%s", res.Code, res.Stderr)
	}
	if r.OK("desk", "publish", "--yes", filepath.Join(r.Dir, "published")); !exists(r.Dir, "published") {
		t.Error("with --yes it did not run")
	}
	for _, args := range [][]string{{"help", "desk", "order"}, {"desk", "order", "--help"}} {
		if out := r.OK(args...).Stdout; !strings.Contains(out, "order [flags] ITEM PIECES [EXTRA...]") || !strings.Contains(out, "--item string") || !strings.Contains(out, "What to order.") {
			t.Errorf("%q shows\n%s", args, out)
		}
	}
	for want, args := range map[string][]string{
		"desk\t": {"de"}, "order\tOrders an item.": {"desk", "or"}, "--pieces": {"desk", "order", "--pi"},
	} {
		if out := r.OK(append([]string{"__complete"}, args...)...).Stdout; !strings.Contains(out, want) {
			t.Errorf("%q completes to %q, want %q", args, out, want)
		}
	}

	// A label of one of gantry's own commands is reached with `plugin run` alone.
	addOdd(t, r, "models", "commands", "")
	if out := r.OK("models").Stdout; strings.Contains(out, "ready") {
		t.Errorf("a plugin takes the place of a command of gantry's:\n%s", out)
	}
	if out := r.OK("__complete", "models", "").Stdout; strings.Contains(out, "order") {
		t.Errorf("commands of a plugin under gantry's command:\n%s", out)
	}
	if out := r.OK("plugin", "run", "models", "status").Stdout; !strings.Contains(out, "ready") {
		t.Errorf("plugin run: %s", out)
	}
}

// A command proposes changes of its plugin's own settings. The user sees them as a diff; nothing is written unless they agree and the
// configuration is valid with all of them, and comments stay.
func TestCommandsChangeTheConfiguration(t *testing.T) {
	t.Parallel()
	r := rig.New(t, finished)
	addOdd(t, r, "desk", "commands", "  # my shops\n  config {\n    greeting = \"hi\" # short\n  }\n")
	file := filepath.Join(r.Home, "gantry.hcl")
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := read()
	refuse := func(want string, args ...string) {
		t.Helper()
		if res := r.Gantry(append([]string{"desk", "shop"}, args...)...); res.Code != 1 || !strings.Contains(res.Stderr, want) || strings.Contains(res.Stdout, "added") {
			t.Errorf("%q: exit %d, no %q in\n%s%s", args, res.Code, want, res.Stdout, res.Stderr)
		}
		if now := read(); now != before {
			t.Errorf("%q changed the file:\n%s", args, now)
		}
	}
	refuse("the configuration was not changed: not confirmed", "corner", "tea")
	refuse("is not one of the allowed values", "--yes", "--greeting", "what", "corner", "tea") // the first change alone would be wrong
	refuse(`unknown setting "shop.corner.door"`, "--yes", "corner/door", "tea")                // not in the plugin's schema
	refuse("there is no such block", "--yes", "--remove", "elsewhere")

	run := r.Terminal("desk", "shop", "--greeting", "hello", "corner", "tea", "milk")
	run.Sees("Make these changes?")
	for _, want := range []string{`plugin "desk" proposes to change `, "-    greeting = \"hi\" # short", "+    greeting = \"hello\" # short", "+    shop \"corner\" {"} {
		if shown := run.Output(); !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	if now := read(); now != before {
		t.Errorf("the file changed before the user agreed:\n%s", now)
	}
	run.Type("y\n")
	if res := run.Wait(); res.Code != 0 || !strings.Contains(res.Stdout, "added") {
		t.Fatalf("exit %d\n%s", res.Code, res.Stdout)
	}
	after := read()
	for _, want := range []string{"  # my shops\n  config {\n    greeting = \"hello\" # short\n", "[\"tea\", \"milk\"]", `env("HOME")`} {
		if !strings.Contains(after, want) {
			t.Errorf("%q is missing in\n%s", want, after)
		}
	}
	r.OK("desk", "status")
	r.OK("desk", "shop", "--yes", "--remove", "corner")
	if now := read(); now != strings.Replace(before, `"hi"`, `"hello"`, 1) {
		t.Errorf("after the removal:\n%s\nwas\n%s", now, before)
	}

	// With --project, it is the project's file that gets the block.
	project := r.Gantry("desk", "shop", "--yes", "--project", "local", "tea")
	b, err := os.ReadFile(filepath.Join(r.Dir, ".gantry", "gantry.hcl"))
	if project.Code != 0 || err != nil || !strings.Contains(string(b), "shop \"local\"") {
		t.Errorf("exit %d, %v\n%s\n%s", project.Code, err, b, project.Stderr)
	}
	if now := read(); strings.Contains(now, "local") {
		t.Errorf("the user's file has it too:\n%s", now)
	}
}
