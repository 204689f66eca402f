package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gantry-agent/gantry/plugins/shell/internal/look"
	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	readDescription = "Reads a text file and returns its lines with their numbers. Long files come in parts: go on with offset."
	listDescription = "Lists what is in a folder, folders with a slash behind their name. With a glob it lists what matches, all the way down."
	findDescription = "Searches the files of a folder, or one file, for lines that match a regular expression, and returns them with file and line number."
	skippedNote     = " .git, .hg, .svn and node_modules are passed over."
)

// readArgs are the arguments of read_file.
type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// listArgs are the arguments of list_files.
type listArgs struct {
	Path  string `json:"path,omitempty"`
	Glob  string `json:"glob,omitempty"`
	Depth int    `json:"depth,omitempty"`
}

// findArgs are the arguments of search_files.
type findArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
	Glob    string `json:"glob,omitempty"`
	Limit   int    `json:"limit,omitempty"`
}

func (f *shellPlugin) readTool() tool.Tool {
	return lookTool(f, "read_file", readDescription, schema([]string{"path"},
		property{name: "path", kind: "string", doc: "Path of the file; relative ones start at the working directory."},
		property{name: "offset", kind: "integer", doc: "Number of the first line to read, from 1. Default 1."},
		property{name: "limit", kind: "integer", doc: "How many lines to read. Default 2000."}),
		func(cwd string, in readArgs) (string, look.Request) {
			path := absolute(cwd, in.Path)
			return path, look.Request{Read: &look.Read{Path: path, Offset: in.Offset, Limit: in.Limit}}
		}, tool.Hook("Read"), tool.HookField("file_path", "path"))
}

func (f *shellPlugin) listTool() tool.Tool {
	return lookTool(f, "list_files", listDescription+skippedNote, schema(nil,
		property{name: "path", kind: "string", doc: "Path of the folder. Default: the working directory."},
		property{name: "glob", kind: "string", doc: "What to list, for example \"*.go\" or \"src/**/*.ts\"."},
		property{name: "depth", kind: "integer", doc: "How many folders to go down. Default 2; with a glob all the way."}),
		func(cwd string, in listArgs) (string, look.Request) {
			path := absolute(cwd, in.Path)
			return path, look.Request{List: &look.List{Path: path, Glob: in.Glob, Depth: in.Depth}}
		}, tool.Hook("Glob"), tool.HookField("pattern", "glob"))
}

func (f *shellPlugin) findTool() tool.Tool {
	return lookTool(f, "search_files", findDescription+skippedNote, schema([]string{"pattern"},
		property{name: "pattern", kind: "string", doc: "The expression, in RE2's syntax; (?i) in front ignores case."},
		property{name: "path", kind: "string", doc: "Folder or file to search. Default: the working directory."},
		property{name: "glob", kind: "string", doc: "Which files, for example \"*.go\" or \"src/**/*.ts\". Default: all."},
		property{name: "limit", kind: "integer", doc: "How many lines to return at most. Default 100, at most 1000."}),
		func(cwd string, in findArgs) (string, look.Request) {
			path := absolute(cwd, in.Path)
			return path, look.Request{Search: &look.Search{Path: path, Pattern: in.Pattern, Glob: in.Glob, Limit: in.Limit}}
		}, tool.Hook("Grep"))
}

// lookTool declares a read-only tool for files. request converts its arguments to the path and the request for the helper.
func lookTool[In any](f *shellPlugin, name, description string, schema json.RawMessage, request func(cwd string, in In) (string, look.Request), opts ...tool.Option) tool.Tool {
	return tool.New(name, description,
		func(ctx context.Context, c *tool.Call, in In) (*tool.Result, error) {
			_, r := request(c.Cwd(), in)
			text, err := f.helper.Look(ctx, c.Command, r)
			if err != nil {
				return nil, failed(name, err)
			}
			return &tool.Result{Parts: []contract.Part{&contract.TextPart{Text: text, Fit: contract.FitTruncatable, AnnounceTruncation: true}}}, nil
		},
		append([]tool.Option{
			tool.Schema(schema), tool.Lenient(), tool.ParallelSafe(), tool.EffectsByHost(), tool.ModelTraits(filesTrait),
			tool.Assess(func(_ context.Context, c *tool.AssessCall, in In) (*contract.Assessment, error) {
				path, _ := request(c.Cwd(), in)
				a := &contract.Assessment{ReadOnly: true, Summary: oneLine(name + " " + path)}
				if !inside(c.Cwd(), path) {
					a.Effects = []contract.Effect{contract.ReadEffect{Paths: []string{path}}}
				}
				return a, nil
			}),
		}, opts...)...)
}

// failed adds the tool's name to an error of its helper. A [patch.Refusal] is already intended for the model and is not changed.
func failed(tool string, err error) error {
	if _, ok := errors.AsType[patch.Refusal](err); ok {
		return err
	}
	return fmt.Errorf("%s failed: %w", tool, err)
}
