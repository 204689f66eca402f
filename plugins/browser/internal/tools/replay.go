package tools

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/agent"
	"github.com/gantry-agent/gantry/plugins/browser/internal/history"
	"github.com/gantry-agent/gantry/plugins/browser/internal/userfiles"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const replayDescription = "Runs a recorded browser task again, without a model: elements are found again although the page has changed. " +
	"Returns how each step went. browser_task records a history; files of browser-use can be run, too."

// maxHistory is the size of a history, in bytes.
const maxHistory = 32 << 20

type replayArgs struct {
	History      string            `json:"history" jsonschema:"Path of the file, or the SHA-256 of the artifact that browser_task has made."`
	Variables    map[string]string `json:"variables,omitempty" jsonschema:"Values that replace typed ones, by their names; a wrong name lists them."`
	SkipFailures bool              `json:"skip_failures,omitempty" jsonschema:"Go on after a step that fails; default: stop."`
	Model        bool              `json:"model,omitempty" jsonschema:"Ask a model which element is meant if none is found; default false."`
}

func (p *browserPlugin) replayTool() tool.Tool {
	return tool.New("browser_replay", replayDescription, guarded(p, p.replay), tool.Assess(known(p, p.assessReplay)), tool.ParallelSafe(), tool.SerialGroup(group), tool.Deferred(),
		tool.EffectsByHost(), tool.SearchText("repeat rerun recorded browser history run again automation"))
}

// isArtifact reports whether a history is named by its digest.
func isArtifact(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == 32
}

func (p *browserPlugin) assessReplay(_ context.Context, c *tool.AssessCall, in replayArgs) (*contract.Assessment, error) {
	a := &contract.Assessment{ReadOnly: true, Summary: "Replay " + short(in.History, 100), Item: &contract.BrowserItem{Action: "replay"}}
	if isArtifact(in.History) {
		return a, nil
	}
	path := absolute(c.Cwd(), in.History)
	if rel, err := filepath.Rel(c.Cwd(), path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		a.Effects = []contract.Effect{contract.ReadEffect{Paths: []string{path}}}
	}
	return a, nil
}

// readHistory reads a history: a file by a process with the call's grant, as the plugin may not see the workspace.
func (p *browserPlugin) readHistory(ctx context.Context, c *tool.Call, name string) ([]byte, error) {
	if !isArtifact(name) {
		var b bounded
		err := userfiles.Client{Binary: p.binary}.Read(ctx, c.Command, absolute(c.Cwd(), name), &b)
		if b.full {
			err = errTooLarge
		}
		return b.content.Bytes(), err
	}
	r, err := c.Env().GetArtifact(ctx, strings.ToLower(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, maxHistory+1))
	if err == nil && len(b) > maxHistory {
		err = errTooLarge
	}
	return b, err
}

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxHistory)

// bounded takes as much as a history may have.
type bounded struct {
	content bytes.Buffer
	full    bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.content.Len()+len(p) > maxHistory {
		b.full = true
		return 0, errTooLarge
	}
	return b.content.Write(p)
}

// leftOut returns the names of what a history has placeholders for that are no secrets.
func (p *browserPlugin) leftOut(h *history.History) []string {
	return slices.DeleteFunc(h.Hidden(), func(name string) bool {
		return slices.ContainsFunc(p.secrets.all(), func(x configuredSecret) bool { return x.Name == name })
	})
}

func (p *browserPlugin) replay(ctx context.Context, c *tool.Call, in replayArgs) (*tool.Result, error) {
	const name = "browser_replay"
	item := &contract.BrowserItem{Action: "replay"}
	if err := c.Started(item); err != nil {
		return nil, err
	}
	b, err := p.readHistory(ctx, c, in.History)
	if err != nil {
		return failed(name, fmt.Errorf("read the history: %w", err)), nil
	}
	h, err := history.Load(b)
	if err != nil {
		return failed(name, err), nil
	}
	if err := h.Substitute(in.Variables); err != nil {
		return failed(name, err), nil
	}
	if left := p.leftOut(h); len(left) > 0 {
		return failed(name, fmt.Errorf("the history does not have what was typed for %s: give it in variables", strings.Join(left, ", "))), nil
	}
	d := &driver{p: p, c: c}
	o := agent.Replaying{SkipFailures: in.SkipFailures}
	if in.Model {
		o.Model = d.sample
	}
	out, err := agent.Replay(ctx, h, d, o)
	var lines []string
	for _, s := range out.Steps {
		lines = append(lines, s.String())
	}
	switch {
	case ctx.Err() != nil:
		lines = append(lines, "aborted by user")
	case err != nil:
		lines = append(lines, "The replay has ended: "+err.Error())
	case out.Complete:
		lines = append(lines, "All steps were replayed.")
		if out.Result != "" {
			lines = append(lines, "The recorded run had ended with: "+out.Result)
		}
	case in.SkipFailures:
		lines = append(lines, fmt.Sprintf("%d steps failed.", out.Failed))
	default:
		lines = append(lines, "The replay has stopped at this step. The page is as it was left: go on with browser_state and browser_act.")
	}
	res := &tool.Result{IsError: !out.Complete, Aborted: ctx.Err() != nil, Item: item}
	res.Parts = []contract.Part{&contract.TextPart{Text: strings.Join(lines, "\n")}}
	if res.Structured, err = json.Marshal(out); err != nil {
		return nil, err
	}
	return res, nil
}
