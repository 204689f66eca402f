package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
	"github.com/gantry-agent/gantry/sdk/wire"
)

// answering is a tool that answers with its name.
func answering(name string, options ...tool.Option) tool.Tool {
	return tool.New(name, "Answers.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
		return tool.Text("this is " + name), nil
	}, append(options, tool.ReadOnly())...)
}

// lookahead is a schema as servers have it, whose pattern RE2 does not know.
var lookahead = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"(?=a)b"}}}`)

// lists is a plugin whose tools are not in its manifest. One of them is invalid from the beginning, another one after a call.
func lists() tool.Plugin {
	cfg := &struct {
		Also string `json:"also" default:"" doc:"The name of one more tool."`
	}{}
	var env *tool.Env
	var tools []tool.Tool
	tools = []tool.Tool{
		answering("fine"), answering("crooked", tool.Schema(lookahead)),
		tool.New("grow", "Offers more.", func(context.Context, *tool.Call, struct{}) (*tool.Result, error) {
			err := env.SetTools(append(tools, answering("later"), answering("bad name")))
			return tool.Text(fmt.Sprint("set: ", err)), nil
		}, tool.ReadOnly()),
	}
	return tool.Plugin{
		Name: "lists", Version: "1.0.0", Description: "Lists.", Config: cfg,
		Configured: func(_ context.Context, e *tool.Env) error {
			env = e
			list := tools
			if cfg.Also != "" {
				list = append(list, answering(cfg.Also))
			}
			_ = env.SetTools(list) // reported by the host
			return nil
		},
	}
}

// declares serves a plugin with an invalid tool in its manifest, as one might that was not written with sdk/tool.
func declares() int {
	logger := wire.NewLogger(os.Stderr)
	s, err := tool.NewServer(tool.Plugin{Name: "declares", Version: "1.0.0", Tools: []tool.Tool{answering("fine")}}, logger)
	if err != nil {
		logger.Error("not served", "err", err)
		return 1
	}
	m := s.Manifest()
	m.Tools = append(m.Tools, contract.Descriptor{Name: "crooked", InputSchema: lookahead})
	return wire.Serve(context.Background(), wire.ServeConfig{
		Manifest: s.Manifest, Register: func(g *grpc.Server) { s.Register(g) }, Logger: logger,
		Stop: func(ctx context.Context) { _ = s.Close(ctx) },
	})
}

// An invalid tool is left out, wherever it was declared: people read which one and why, and all others are there.
func TestAnInvalidToolIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	warned := func(t *testing.T, r *rig.Rig, tools ...string) {
		t.Helper()
		events := rig.Events(t, r.OK("exec", "--events", "go").Stdout)
		for _, name := range tools {
			n := 0
			for _, e := range events {
				var notice struct{ Level, Text string }
				if e.Kind == "notice" {
					e.Into(t, &notice)
				}
				if strings.Contains(notice.Text, `tool "`+name+`" is left out`) && notice.Level == "warning" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("people are told %d times that %q is left out", n, name)
			}
		}
	}
	t.Run("in a manifest", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, "[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
		addOdd(t, r, "declares", "declares", "")
		warned(t, r, "crooked")
		if offered := strings.Join(r.Last().Offered(), " "); !strings.Contains(offered, "fine") || strings.Contains(offered, "crooked") {
			t.Errorf("offered: %s", offered)
		}
	})
	t.Run("in a set", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t, "[[step]]\nwhen = { no_tools = [\"later\"] }\ntimes = -1\ndo = [{ call = \"grow\" }]\n"+
			"[[step]]\ndo = [{ text = \"done\" }]\n")
		addOdd(t, r, "lists", "lists", "")
		warned(t, r, "crooked", "bad name")
		offered := strings.Join(r.Last().Offered(), " ")
		if !strings.Contains(offered, "fine") || !strings.Contains(offered, "later") || strings.Contains(offered, "bad") {
			t.Errorf("offered: %s", offered)
		}
		if out := fmt.Sprint(r.Last().Outputs()); !strings.Contains(out, `tool "bad name"`) || strings.Contains(out, "unsupported call") {
			t.Errorf("the plugin is told %q", out)
		}
	})
}

// The tools of a plugin that has none in its manifest are offered before its process is there, if the same binary has sent them
// under the same configuration. Another configuration is waited for.
func TestAToolSetIsCachedByConfiguration(t *testing.T) {
	t.Parallel()
	r := rig.New(t, "[[step]]\nwhen = { user = \"third\", since_user = 0 }\ndo = [{ call = \"fine\", id = \"c1\" }]\n[[step]]\ntimes = -1\ndo = [{ text = \"done\" }]\n")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := r.Program("lists", fmt.Sprintf("#!/bin/sh\nwhile [ -e %q ]; do sleep 0.01; done\n%s=lists exec %q \"$@\"\n", filepath.Join(r.Dir, "hold"), oddMode, self))
	r.Config(fmt.Sprintf("plugin \"lists\" {\n  source = %q\n  approval = \"approve\"\n  permissions {\n    read = [%q, %q]\n  }\n}\n", program, r.Dir, self))
	offers := func(name string) bool { return slices.Contains(r.Last().Offered(), name) }

	r.OK("plugin", "lock", "--yes", "lists")
	r.OK("exec", "first")
	if !offers("fine") {
		t.Fatalf("offered at first: %v", r.Last().Offered())
	}
	r.OK("exec", "-c", `plugin.lists.config.also="extra"`, "second")
	if !offers("extra") {
		t.Errorf("offered under another configuration: %v", r.Last().Offered())
	}

	r.Write("hold", "")
	run := r.Start("exec", "third")
	r.Until("the model is asked while the plugin hangs in its start", func() bool { return len(r.Requests()) == 3 })
	if !offers("fine") || offers("extra") {
		t.Errorf("offered from the cache: %v", r.Last().Offered())
	}
	if err := os.Remove(filepath.Join(r.Dir, "hold")); err != nil {
		t.Fatal(err)
	}
	if res := run.Wait(); res.Code != 0 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stderr)
	}
	if out := r.Last().Outputs()["c1"]; out != "this is fine" {
		t.Errorf("the call answers %q", out)
	}
}
