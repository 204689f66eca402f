package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type narrowArgs struct {
	Script    string `json:"script"`
	Then      string `json:"then,omitempty"` // once the origin is authorized
	Origin    string `json:"origin,omitempty"`
	Quiet     bool   `json:"quiet,omitempty"`
	Workspace string `json:"workspace,omitempty"`
}

// narrowed is a plugin that starts processes with less than its calls.
func narrowed() tool.Plugin {
	return tool.Plugin{
		Name: "calls", Version: "1.0.0", Description: "Starts processes.", Capabilities: []string{"spawn", "ask"}, Config: &struct{}{},
		Tools: []tool.Tool{tool.New("start", "Starts a process.", func(ctx context.Context, c *tool.Call, in narrowArgs) (*tool.Result, error) {
			profile := filepath.Join(c.Env().DataDir, "profile")
			if err := os.MkdirAll(profile, 0o700); err != nil {
				return nil, err
			}
			script := in.Script
			if in.Then != "" {
				script += "; echo; echo ready; read line; " + in.Then
			}
			cmd := c.Command(ctx, "/bin/sh", "-c", script)
			cmd.Env = []string{"PROFILE=" + profile, "WORKSPACE=" + in.Workspace}
			cmd.Narrow, cmd.Folders, cmd.QuietNetwork, cmd.MergeStderr = true, []string{profile}, in.Quiet, true
			stdin, err := cmd.StdinPipe()
			if err != nil {
				return nil, err
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				return nil, err
			}
			if err := cmd.Start(); err != nil {
				return tool.Text("not started: " + err.Error()), nil
			}
			from, out := bufio.NewReader(stdout), &strings.Builder{}
			for in.Then != "" && !strings.HasSuffix(out.String(), "\nready\n") {
				line, err := from.ReadString('\n')
				if out.WriteString(line); err != nil {
					return nil, err
				}
			}
			said := "not authorized"
			if in.Origin != "" {
				if err := c.Authorize(ctx, contract.BrowserEffect{Origin: in.Origin, Kind: "document"}); err == nil {
					said = "authorized"
				}
			}
			if _, err := io.WriteString(stdin, "go on\n"); err != nil && in.Then != "" {
				return nil, err
			}
			if _, err := io.Copy(out, from); err != nil {
				return nil, err
			}
			err = cmd.Wait()
			b, _ := os.ReadFile(filepath.Join(profile, "file"))
			return tool.Text(fmt.Sprintf("%s; %s; %v; the plugin reads %q", said, out, err, b)), nil
		}, tool.ReadOnly())},
	}
}

// narrowRig makes a rig whose model calls the plugin's tool.
func narrowRig(t *testing.T, calls ...narrowArgs) *rig.Rig {
	t.Helper()
	var script strings.Builder
	for i, a := range calls {
		fmt.Fprintf(&script, "[[step]]\ndo = [{ call = \"start\", id = \"c%d\", args = { script = %q, then = %q, origin = %q, quiet = %v, workspace = \"$DIR\" } }]\n", i+1, a.Script, a.Then, a.Origin, a.Quiet)
	}
	return callOut(t, "narrow", "", "", script.String())
}

// status is a script that prints the status and the first words of a page.
func status(url string) string {
	return fmt.Sprintf("curl -s -w ' %%{http_code}' %s", url)
}

// A narrow process of a plugin shares a folder with it in every mode, and sees nothing of the user's.
func TestNarrowProcess(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"read-only", "workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := narrowRig(t, narrowArgs{Script: "echo -n mine > $PROFILE/file; cat $WORKSPACE/secret /etc/passwd; ls -A $HOME; pwd; id -u"})
			if err := os.WriteFile(filepath.Join(r.Dir, "secret"), []byte("SECRET"), 0o644); err != nil {
				t.Fatal(err)
			}
			r.OK("exec", "-c", "sandbox.mode="+mode, "go")
			got := r.Last().Outputs()["c1"]
			if !strings.Contains(got, "/tmp\n") || !strings.Contains(got, `the plugin reads "mine"`) || strings.Contains(got, "SECRET") || strings.Contains(got, "root:") || strings.Contains(got, "\n0\n") {
				t.Errorf("%q", got)
			}
			r.NothingLeft()
		})
	}
}

// A host that no rule names is refused to a quiet process without a question. Once the user has agreed it is open for it, and after a no the
// process goes on.
func TestQuietNetwork(t *testing.T) {
	t.Parallel()
	const page = "http://stranger.test/"
	calls := []narrowArgs{
		{Script: status(page), Quiet: true},
		{Script: status(page), Then: status(page), Quiet: true, Origin: "http://stranger.test"},
		{Script: status(page), Then: status(page), Quiet: true, Origin: "http://other.test"},
		{Script: status(page), Quiet: true},
	}
	r := narrowRig(t, calls...)
	run := r.Terminal("exec", "-c", "approval.policy=on-request", "-c", "sandbox.mode=workspace-write", "-c", "network.mode=proxy", "go")
	run.SeesTimes("answer: ", 1)
	run.Type("y\n")
	run.SeesTimes("answer: ", 2)
	run.Type("n\n")
	if res := run.Wait(); res.Code != 0 || strings.Count(res.Stdout, "answer: ") != 2 {
		t.Fatalf("exit %d:\n%s", res.Code, res.Stdout)
	}
	out := r.Last().Outputs()
	const refused = "is not among the hosts that the network rules allow"
	for id, want := range map[string][]string{
		// The name does not exist, which is found out only when it is allowed.
		"c1": {"not authorized", refused, "403; <nil>"}, "c2": {refused, "there is no host stranger.test"},
		"c3": {"not authorized", refused, "403; <nil>"}, "c4": {refused, "403; <nil>"},
	} {
		for _, w := range want {
			if !strings.Contains(out[id], w) {
				t.Errorf("%s: %q, want %q", id, out[id], w)
			}
		}
	}
	if !strings.HasPrefix(out["c2"], "authorized; ") || strings.Count(out["c3"], refused) != 2 || strings.Contains(out["c4"], "there is no host") {
		t.Errorf("%q", out)
	}
	r.NothingLeft()
}
