//go:build unix

package tools_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// offered returns the tools that the host would list now.
func (r *rig) offered() map[string]contract.Descriptor {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := r.tools.Watch(ctx, &gantryv1.WatchRequest{})
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]contract.Descriptor{}
	for _, d := range convert.ToolSetFromProto(m).Tools {
		out[d.Name] = d
	}
	return out
}

func TestDescriptors(t *testing.T) {
	r := newRig(t, rigOptions{})
	tools := r.offered()
	for _, tt := range []struct {
		name       string
		parallel   bool
		command    bool // an abort reads like that of a command
		hook       string
		aliases    []string
		field      string
		traits     []string
		required   string
		properties []string
	}{
		{"exec_command", true, true, "Bash", nil, "cmd", nil, "cmd", []string{"additional_permissions", "cmd", "justification", "login", "max_output_tokens", "prefix_rule",
			"sandbox_permissions", "shell", "tty", "workdir", "yield_time_ms"}},
		{"write_stdin", true, true, "", nil, "", nil, "session_id", []string{"chars", "max_output_tokens", "session_id", "yield_time_ms"}},
		{"apply_patch", false, false, "apply_patch", []string{"Write", "Edit"}, "input", []string{"patches"}, "", nil},
		{"edit_file", false, false, "Edit", []string{"Write"}, "", []string{"edits"}, "path", []string{"new_text", "old_text", "path", "replace_all"}},
		{"read_file", true, false, "Read", nil, "", []string{"files"}, "path", []string{"limit", "offset", "path"}},
		{"search_files", true, false, "Grep", nil, "", []string{"files"}, "pattern", []string{"glob", "limit", "path", "pattern"}},
		{"view_image", false, false, "", nil, "", []string{"images"}, "path", []string{"detail", "path"}},
	} {
		d, ok := tools[tt.name]
		if !ok || !d.Assess || d.ParallelSafe != tt.parallel || d.AbortReadsAsCommand != tt.command || d.HookName != tt.hook ||
			!slices.Equal(d.HookAliases, tt.aliases) || d.HookFields["command"] != tt.field || !slices.Equal(d.ModelTraits, tt.traits) {
			t.Errorf("%s: %+v", tt.name, d)
		}
		if tt.required == "" {
			continue
		}
		var schema struct {
			Properties           map[string]json.RawMessage
			Required             []string
			AdditionalProperties bool
		}
		if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range schema.Properties {
			names = append(names, name)
		}
		slices.Sort(names)
		if !slices.Equal(names, tt.properties) || schema.Required[0] != tt.required || schema.AdditionalProperties || !d.LenientArguments {
			t.Errorf("%s: schema %s", tt.name, d.InputSchema)
		}
	}
	if list := string(tools["list_files"].InputSchema); !strings.Contains(list, `"required":[]`) {
		t.Errorf("list_files: schema %s", list)
	}
	if len(tools) != 8 {
		t.Errorf("%d tools", len(tools))
	}
	f := tools["apply_patch"].Freeform
	if f == nil || f.Syntax != "lark" || f.Property != "input" {
		t.Fatalf("freeform = %+v", f)
	}
	for _, line := range []string{
		"start: begin_patch hunk+ end_patch", `begin_patch: "*** Begin Patch" LF`, `end_patch: "*** End Patch" LF?`,
		`add_hunk: "*** Add File: " filename LF add_line+`, `delete_hunk: "*** Delete File: " filename LF`,
		`update_hunk: "*** Update File: " filename LF change_move? change?`, `change_move: "*** Move to: " filename LF`,
		"change: (change_context | change_line)+ eof_line?", `change_context: ("@@" | "@@ " /(.+)/) LF`,
		`eof_line: "*** End of File" LF`, "filename: /(.+)/", "%import common.LF",
	} {
		if !slices.Contains(strings.Split(f.Definition, "\n"), line) {
			t.Errorf("grammar lacks %s", line)
		}
	}
}

func TestDisabledArgumentsAreNotOffered(t *testing.T) {
	r := newRig(t, rigOptions{config: `{"login":false,"terminal":false}`})
	schema := string(r.offered()["exec_command"].InputSchema)
	if strings.Contains(schema, `"tty"`) || strings.Contains(schema, `"login"`) {
		t.Errorf("schema = %s", schema)
	}
	if ds := r.configure(`{}`); len(ds) != 0 {
		t.Fatal(ds)
	}
	schema = string(r.offered()["exec_command"].InputSchema)
	if !strings.Contains(schema, `"tty"`) || !strings.Contains(schema, `"login"`) {
		t.Errorf("after another block: schema = %s", schema)
	}
}
