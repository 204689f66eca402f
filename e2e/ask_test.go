package e2e_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// clerk is a plugin that asks its user, within calls and within a command.
func clerk() tool.Plugin {
	type asker interface {
		Ask(context.Context, tool.Question) (tool.Answer, error)
	}
	ask := func(ctx context.Context, c asker, q tool.Question) string {
		a, err := c.Ask(ctx, q)
		switch {
		case err != nil:
			return err.Error()
		case a.Declined:
			return strings.TrimSpace("declined " + a.Note)
		case a.Dismissed:
			return "dismissed"
		case a.Cancelled:
			return "cancelled"
		}
		return string(a.JSON)
	}
	question := func(name string, q tool.Question) tool.Tool {
		return tool.New(name, "Asks the user.", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
			return tool.Text(ask(ctx, c, q)), nil
		}, tool.ReadOnly())
	}
	form := tool.Question{
		Source: "shop", Title: "Size", Message: "Which size?",
		FormSchema: json.RawMessage(`{"type":"object","properties":{"size":{"type":"integer"},"colour":{"type":"string","enum":["red","blue"]}}}`),
	}
	return tool.Plugin{
		Name: "asks", Version: "1.0.0", Description: "Asks.", Capabilities: []string{"ask"},
		Tools: []tool.Tool{
			question("ask_choice", tool.Question{Title: "Colour", Message: "Which colour?", Options: []string{"red", "blue"}}),
			question("ask_form", form),
		},
		Commands: []tool.Command{tool.NewCommand("ask", "Asks who runs it.", func(ctx context.Context, c *tool.CommandCall, _ struct{}) (any, error) {
			return map[string]string{"answer": ask(ctx, c, form)}, nil
		})},
	}
}

// A plugin's form is filled in on the terminal, within a turn and within a command. The plugin gets the object that it asked for, or
// learns that the user declined, closed the question, or could not be asked.
func TestFormsOnATerminal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		typed []string
		want  string // what the plugin gets
	}{
		{"filled in", []string{"y", "three", "3", "2", "y"}, `{"size":3,"colour":"blue"}`},
		{"declined", []string{"n"}, "declined"},
		{"dismissed", []string{"q"}, "dismissed"},
	} {
		for _, command := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{true: " in a command"}[command], func(t *testing.T) {
				t.Parallel()
				r := person(t, askScript("ask_form"))
				addOdd(t, r, "clerk", "asks", "")
				args := []string{"exec", "--config", "asks.hcl", "go"}
				if command {
					args = []string{"plugin", "run", "clerk", "ask"}
				}
				run := r.Terminal(args...)
				prompts := []string{"q) dismiss\r\n  answer: ", `1 of 2: "size": whole number, optional`, "not a number; value: ", `2 of 2: "colour"`, "r) fill in again\r\n  n) decline\r\n  q) dismiss\r\n  answer: "}
				for i, line := range tc.typed {
					run.Sees(prompts[i])
					run.Type(line + "\n")
				}
				res := run.Wait()
				if res.Code != 0 || !strings.Contains(res.Stdout, "? server \"shop\" of plugin \"clerk\" asks\r\n  | Size\r\n  | Which size?\r\n") {
					t.Errorf("exit %d\n%s", res.Code, res.Stdout)
				}
				got := strings.ReplaceAll(res.Stdout, `\"`, `"`)
				want := `"answer": "` + tc.want + `"`
				if !command {
					got, want = r.Last().Outputs()["c1"], tc.want
				}
				if !strings.Contains(got, want) {
					t.Errorf("the plugin got\n%s\nwant %s", got, want)
				}
			})
		}
	}
	r := rig.New(t, "")
	addOdd(t, r, "clerk", "asks", "")
	if out := r.OK("plugin", "run", "clerk", "ask").Stdout; !strings.Contains(out, `"declined there is nobody to ask: no terminal is attached"`) {
		t.Errorf("without a terminal: %s", out)
	}
}
