package e2e_test

import (
	"context"
	"encoding/base64"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/e2e/vendors"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type wordArgs struct {
	Word string `json:"word" jsonschema:"the word to look up"`
}

// desk is a plugin that always does the same: what a model is told of its tools and what they answer can stand in files.
func desk() tool.Plugin {
	return tool.Plugin{
		Name: "desk", Version: "1.0.0", Description: "Looks things up.",
		Tools: []tool.Tool{
			tool.New("lookup", "Looks a word up.", func(_ context.Context, _ *tool.Call, in wordArgs) (*tool.Result, error) {
				return tool.Text(in.Word + ": a word of " + string(rune('0'+len(in.Word)%10)) + " letters"), nil
			}, tool.ReadOnly(), tool.ParallelSafe()),
			tool.New("picture", "Shows a picture of a word.", func(context.Context, *tool.Call, wordArgs) (*tool.Result, error) {
				data, err := base64.StdEncoding.DecodeString(pixel)
				return &tool.Result{Parts: []contract.Part{&contract.MediaPart{MediaType: "image/png", Data: data}}}, err
			}, tool.ReadOnly()),
		},
	}
}

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// onlyDesk leaves a rig the tools of the desk and nothing else.
func onlyDesk(t *testing.T, r *rig.Rig) {
	t.Helper()
	r.Config("plugin \"shell\" {\n  enabled = false\n}\nagents {\n  tools = \"none\"\n}\ngoals {\n  enabled = false\n}\n")
	addOdd(t, r, "desk", "desk", "")
}

// onDesk is a call of a tool of the desk.
func onDesk(tool, word string) vendors.Call {
	return vendors.Call{Name: tool, Args: map[string]any{"word": word}}
}
