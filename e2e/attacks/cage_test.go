package attacks_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// Plugins whose own processes make tries: one without permissions, one that may use the network.
const caged, networked = "plugin", "plugin-network"

// pluginEnv makes the attacker a plugin.
const pluginEnv = "ATTACK_PLUGIN"

// cages are the plugins that also make the tries of a sandbox for commands: what a command must not do, a plugin's process must not either.
// It has no workspace that it may write, so what has to work there is left out, but for these rows.
var (
	cages        = map[string]string{"": caged, "network": networked}
	worksInCages = []string{"F12", "N8"}
)

// inCage tells which plugin makes a try; empty: none does.
func (a try) inCage(id string) string {
	switch {
	case a.box == caged || a.box == networked:
		return a.box
	case !strings.Contains("FPN", id[:1]) || a.works && !slices.Contains(worksInCages, id):
		return ""
	}
	return cages[a.box]
}

// attackPlugin is a plugin that makes tries by itself: its own process runs the script that it is given.
func attackPlugin() tool.Plugin {
	type args struct {
		Script string `json:"script"`
	}
	type nested struct {
		Depth int `json:"depth"`
	}
	data := ""
	return tool.Plugin{
		Name: "attacker", Version: "1.0.0", Description: "Tries to get out.", Capabilities: []string{"call-tools"}, Limits: contract.Limits{CallMS: bound.Milliseconds()},
		Configured: func(_ context.Context, env *tool.Env) error { data = env.DataDir; return nil },
		Tools: []tool.Tool{tool.New("attack", "Tries to get out.", func(ctx context.Context, _ *tool.Call, in args) (*tool.Result, error) {
			out, _ := exec.CommandContext(ctx, "/bin/sh", "-c", in.Script).CombinedOutput()
			if err := os.WriteFile(filepath.Join(data, "said"), out, 0o600); err != nil {
				return nil, err
			}
			return tool.Text("tried"), nil
		}, tool.ReadOnly()), tool.New("nest", "Calls itself.", func(ctx context.Context, c *tool.Call, in nested) (*tool.Result, error) {
			if in.Depth == 40 {
				return tool.Text("REACHED 40"), nil
			}
			r, err := c.CallTool(ctx, "", "nest", nested{in.Depth + 1})
			if err != nil {
				return tool.Text(fmt.Sprintf("refused at %d: %v", in.Depth, err)), nil
			}
			return r, nil
		}, tool.ReadOnly())},
	}
}

// plugin adds an attacker to a flow.
func (f *flow) plugin(t *testing.T, label string) {
	t.Helper()
	permissions := ""
	if label == networked {
		permissions = "  permissions {\n    network = [\"*\"]\n  }\n"
	}
	f.Config(fmt.Sprintf("plugin %q {\n  source = %q\n  env {\n    %s = \"1\"\n  }\n%s}\n", label, filepath.Join(f.world.programs, "attacker"), pluginEnv, permissions))
	f.prepare()
	f.OK("plugin", "lock", "--yes")
	f.steps.Reset()
}

// attack has a plugin run a script, with the variables of the flow's world.
func (f *flow) attack(plugin, script string) {
	f.ids = append(f.ids, plugin)
	file := filepath.Join(f.world.top, plugin+".sh")
	var b strings.Builder
	b.WriteString("unset " + pluginEnv + "\n")
	for _, kv := range f.world.env() {
		name, value, _ := strings.Cut(kv, "=")
		if !slices.Contains([]string{"A_SECRET", "PROVIDER_KEY", "TMPDIR", "_"}, name) && !strings.ContainsAny(name, "%()") {
			fmt.Fprintf(&b, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
		}
	}
	f.Write(file, b.String()+script)
	fmt.Fprintf(&f.steps, "[[step]]\ndo = [{ call = \"attack\", id = %q, args = { script = %s } }]\n", plugin, quoted(". "+file))
}

// said is what a plugin's script has printed.
func (f *flow) said(t *testing.T, plugin string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(f.Home, "data", plugin, "said"))
	if err != nil {
		t.Errorf("%s: %v", plugin, err)
	}
	return string(b)
}

// runCages makes all tries that are made in plugins' processes.
func (w *world) runCages(t *testing.T) map[string]result {
	t.Helper()
	all := map[string]result{}
	for _, plugin := range []string{caged, networked} {
		f := newFlow(t, w, plugin, "workspace-write", "never")
		f.world.listen(t, w.services)
		f.world.home = f.Home // the one that is hidden
		f.Write(filepath.Join(f.Home, "secrets", "key"), "SECRET of gantry")
		f.plugin(t, plugin)
		before := f.world.snapshot(t)
		f.attack(plugin, f.world.tries(func(id string, a try) bool { return a.inCage(id) == plugin }))
		f.run(t)
		if after := f.world.snapshot(t); after != before {
			t.Errorf("what lies outside of the plugin has changed:\n%s\nwas:\n%s", after, before)
		}
		said := f.said(t, plugin)
		got := parse(said)
		if len(got) == 0 || strings.Contains(said, providerKey) {
			t.Errorf("%s: %d tries:\n%s", plugin, len(got), said)
		}
		for name, r := range got {
			all[plugin+" "+name] = r
		}
	}
	return all
}

// judgeCage compares what came of a try in a plugin's process. How it is refused is compared for rows about plugins alone.
func (w *world) judgeCage(t *testing.T, id string, i int, a try, results map[string]result) {
	t.Helper()
	plugin := a.inCage(id)
	if plugin == "" {
		return
	}
	name := plugin + " " + key(id, i)
	r, ok := results[name]
	switch {
	case !ok:
		t.Errorf("%s did not run:\n%s%s", name, a.do, a.call)
	case a.works != (r.status == 0):
		t.Errorf("%s: status %d, want that it works: %v: %q:\n%s%s", name, r.status, a.works, r.output, a.do, a.call)
	case a.box == plugin && !strings.Contains(r.output, a.says):
		t.Errorf("%s: status %d, %q, want %q:\n%s%s", name, r.status, r.output, a.says, a.do, a.call)
	}
}

// listen puts sockets where programs of a user have theirs, and names them in variables. services hears of what is reached.
func (w *world) listen(t *testing.T, s *services) {
	t.Helper()
	tmp, err := os.MkdirTemp("/tmp", "gas")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	for variable, path := range map[string]string{
		"TMUX_SOCKET": filepath.Join(tmp, "tmux/default"), "AGENT_SOCKET": filepath.Join(tmp, "ssh-x/agent.1"), "X_SOCKET": filepath.Join(tmp, ".X11-unix/X0"),
		"HOME_SOCKET": filepath.Join(w.user, ".agent"), "PROJECT_SOCKET": filepath.Join(w.ws, "dev.sock"), "DATABASE_SOCKET": filepath.Join(w.out, "pg"),
		"ABSTRACT_X": "@" + tmp + "/.X11-unix/X0",
	} {
		if path[0] != '@' {
			mkdir(t, filepath.Dir(path))
		}
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() { // owned by the listener, whose end ends it
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				s.hear(variable)
				c.Close()
			}
		}()
		w.extra = append(w.extra, variable+"="+path)
	}
	w.extra = append(w.extra, "TMP_FILE="+filepath.Join(tmp, "file"))
	if err := os.WriteFile(filepath.Join(tmp, "file"), []byte("SECRET of another program"), 0o644); err != nil {
		t.Fatal(err)
	}
}
