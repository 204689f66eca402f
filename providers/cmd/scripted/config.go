package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/providers/script"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
	"github.com/gantry-agent/gantry/sdk/provider"
)

type config struct {
	Script          string   `json:"script" path:"true" doc:"File with the script, TOML or JSON. Without script and script_text the built-in demo plays."`
	ScriptText      string   `json:"script_text" doc:"The script itself."`
	Log             string   `json:"log" path:"true" doc:"File that each request is appended to as one line of JSON, whole. It holds all that the model sees."`
	ContextWindow   int64    `json:"context_window" doc:"Tokens that each model claims to take; 0: unknown." default:"128000"`
	MaxOutputTokens int64    `json:"max_output_tokens" doc:"Tokens that each model claims to answer at most; 0: unknown." default:"0"`
	ToolTraits      []string `json:"tool_traits" doc:"Which kinds of tools suit each model; without it patches."`
	Models          []string `json:"models" doc:"Names of the models on offer; all of them follow the script." default:"[\"scripted\"]"`
}

// newScripted opens the files that the configuration names.
func newScripted(_ context.Context, env provider.Env) (provider.Provider, error) {
	cfg := env.Config.(*config)
	s := &scripted{config: cfg, logger: env.Logger, clock: clock, end: endProcess}
	var err error
	switch {
	case cfg.Script != "" && cfg.ScriptText != "":
		return nil, &contract.Diagnostic{
			Severity: contract.SeverityError, Summary: "both script and script_text are set",
			Next: "Keep one of them.",
		}
	case cfg.Script != "":
		var text []byte
		if text, err = readFile(cfg.Script, script.MaxBytes); err == nil {
			s.player, err = script.Load(filepath.Base(cfg.Script), text)
		}
		err = at("script", "the script can't be played", "Correct the script; providers/script/FORMAT.md describes the format.", err)
	case cfg.ScriptText != "":
		s.player, err = script.Load("script_text", []byte(cfg.ScriptText))
		err = at("script_text", "the script can't be played", "Correct the script; providers/script/FORMAT.md describes the format.", err)
	default:
		s.player, err = script.Load("demo", demo)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range cfg.Models {
		s.models = append(s.models, row(cfg, id))
	}
	if s.log, err = openAppend(cfg.Log); err != nil {
		return nil, at("log", "the request log can't be written", "Specify a file in an existing, writable folder.", err)
	}
	s.memory = newMemory(env.DataDir)
	return s, nil
}

// at converts an error to a diagnostic at an attribute of the block.
func at(attribute, summary, next string, err error) error {
	if err == nil {
		return nil
	}
	return &contract.Diagnostic{
		Severity: contract.SeverityError, Summary: summary, Detail: err.Error(), Next: next,
		Path: []contract.Step{{Kind: contract.StepName, Name: attribute}},
	}
}

func row(cfg *config, id string) llm.ModelRow {
	return llm.ModelRow{
		ID: id, DisplayName: "scripted model " + id, ContextWindow: cfg.ContextWindow, MaxContextWindow: cfg.ContextWindow, MaxOutputTokens: cfg.MaxOutputTokens,
		InputModalities: []string{"text", "image"}, OutputModalities: []string{"text"}, ToolKinds: []string{"function", "freeform"},
		ToolTraits: cfg.ToolTraits, ReasoningEfforts: []string{"low", "medium", "high"}, DefaultReasoningEffort: "medium", ParallelToolCalls: true,
		MetadataNamespace: script.Namespace,
	}
}

// readFile reads a file of at most most bytes.
func readFile(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", name)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, more than the maximum of %d", name, info.Size(), most)
	}
	return os.ReadFile(name)
}
