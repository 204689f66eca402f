package overlay

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/client"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/keys"
	"github.com/gantry-agent/gantry/host/internal/tui/term"
	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

func plain(lines []term.Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(l.Plain(), " "))
	}
	return strings.Join(out, "\n")
}

func answered(t *testing.T, o *Overlay, presses ...string) string {
	t.Helper()
	for i, p := range presses {
		k := Key{Text: p}
		switch p {
		case "enter":
			k = Key{Action: keys.Choose}
		case "esc":
			k = Key{Action: keys.Close}
		}
		answer, done := o.Press(k)
		if done != (i == len(presses)-1) {
			t.Fatalf("after %q, done is %v", presses[:i+1], done)
		}
		if done {
			b, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
	}
	return ""
}

func command() *protocol.CommandExecutionRequestApprovalParams {
	return &protocol.CommandExecutionRequestApprovalParams{
		Kind: protocol.ApproveCommand, Command: ptr("rm -rf \u202ebuild\x1b[2J"), Cwd: ptr("/home/u"), Reason: ptr("to clean up"),
		ProposedRule: ptr(`prefix_rule(pattern=["rm"], decision="allow")`),
		AvailableDecisions: []protocol.CommandExecutionApprovalDecision{
			{Kind: protocol.DecisionAccept}, {Kind: protocol.DecisionAcceptForSession},
			{Kind: protocol.DecisionAcceptWithAmendment, ExecpolicyAmendment: &protocol.ExecpolicyAmendmentDecision{ExecpolicyAmendment: []string{"rm"}}},
			{Kind: protocol.DecisionDecline}, {Kind: protocol.DecisionCancel},
		},
	}
}

func TestCommand(t *testing.T) {
	o := New(client.Question{Params: command()}, nil)
	o.Armed = true
	want := `? May this command run?
$ rm -rf ` + "\ufffdbuild\ufffd" + `[2J
in /home/u
because to clean up
  y  yes, this time
  s  yes, and don't ask again in this thread
  a  yes, always: adds to your rules prefix_rule(pattern=["rm"], decision="allow")
  n  no, go on without it
Esc refuses and interrupts · 2 more questions`
	if got := plain(o.View(100, 20, 2)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for key, want := range map[string]string{
		"y": `{"decision":"accept"}`, "s": `{"decision":"acceptForSession"}`, "n": `{"decision":"decline"}`, "esc": `{"decision":"cancel"}`,
		"a": `{"decision":{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["rm"]}}}`,
	} {
		if got := answered(t, New(client.Question{Params: command()}, nil), key); got != want {
			t.Errorf("%s answers %s, want %s", key, got, want)
		}
	}
	if _, done := o.Press(Key{Text: "x"}); done {
		t.Error("a key without a meaning answers")
	}
}

func TestFileChange(t *testing.T) {
	item := &client.Item{Body: protocol.FileChangeItem{Changes: []protocol.FileUpdateChange{
		{Path: "/home/u/a.go", Kind: protocol.PatchChangeKind{Body: protocol.UpdatePatch{}}, Diff: "@@ -1 +1 @@\n-a\n+b\n" + strings.Repeat(" c\n", 50)},
	}}}
	o := New(client.Question{Params: &protocol.FileChangeRequestApprovalParams{Reason: ptr("outside of the workspace")}}, item)
	o.Armed = true
	first := plain(o.View(60, 12, 0))
	if !strings.Contains(first, "/home/u/a.go\n@@ -1 +1 @@\n-a\n+b\n") || !strings.Contains(first, "of 55") || !strings.Contains(first, "y  yes") {
		t.Errorf("%s", first)
	}
	for range 20 {
		o.Press(Key{Action: keys.PageDown})
		o.View(60, 12, 0)
	}
	if last := plain(o.View(60, 12, 0)); !strings.Contains(last, "–55 of 55") || !strings.Contains(last, "y  yes") {
		t.Errorf("%s", last)
	}
	if got := answered(t, o, "y"); got != `{"decision":"accept"}` {
		t.Error(got)
	}
}

func TestPermissions(t *testing.T) {
	p := &protocol.PermissionsRequestApprovalParams{Permissions: protocol.PermissionProfile{
		Network: &protocol.NetworkPermissions{Enabled: ptr(true)}, FileSystem: &protocol.FileSystemPermissions{Write: []string{"/data"}},
	}}
	o := New(client.Question{Params: p}, nil)
	if got := plain(o.View(60, 20, 0)); !strings.Contains(got, "access to the network\nwrite /data") {
		t.Errorf("%s", got)
	}
	if got := answered(t, o, "s"); !strings.Contains(got, `"write":["/data"]`) || !strings.Contains(got, `"scope":"session"`) {
		t.Error(got)
	}
	if got := answered(t, New(client.Question{Params: p}, nil), "esc"); strings.Contains(got, "data") || strings.Contains(got, "enabled") {
		t.Error(got)
	}
}

func TestUserInput(t *testing.T) {
	p := &protocol.ToolRequestUserInputParams{Questions: []protocol.ToolRequestUserInputQuestion{
		{ID: "color", Question: "Which color?", IsOther: true, Options: []protocol.ToolRequestUserInputOption{{Label: "red"}, {Label: "blue", Description: "the sky"}}},
		{ID: "token", Question: "The token?", IsSecret: true},
	}}
	if got, want := answered(t, New(client.Question{Params: p}, nil), "2", "s3", "enter"), `{"answers":{"color":{"answers":["blue"]},"token":{"answers":["s3"]}}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o := New(client.Question{Params: p}, nil)
	if got := answered(t, o, "o", "green", "enter", "x", "enter"); !strings.Contains(got, `"green"`) {
		t.Error(got)
	}
	o = New(client.Question{Params: p}, nil)
	o.Press(Key{Text: "1"})
	o.Paste("secret")
	if got := plain(o.View(60, 20, 0)); strings.Contains(got, "secret") || !strings.Contains(got, "••••••") || !strings.Contains(got, "2/2 The token?") {
		t.Errorf("%s", got)
	}
}

func TestForm(t *testing.T) {
	p := &protocol.MCPServerElicitationRequestParams{Body: protocol.FormElicitation{
		ElicitationHeader: protocol.ElicitationHeader{ServerName: "issues", Message: "Fill in"},
		RequestedSchema:   json.RawMessage(`{"properties":{"a":{"type":"string"},"n":{"type":"integer","title":"Number"},"ok":{"type":"boolean"},"e":{"type":"string","enum":["x","y"]}},"required":["n"]}`),
	}}
	o := New(client.Question{Params: p}, nil)
	o.Press(Key{Text: "many"})
	o.Press(Key{Action: keys.Choose})
	if got := plain(o.View(60, 20, 0)); !strings.Contains(got, "1/4 Number") || !strings.Contains(got, "a number is required") {
		t.Errorf("%s", got)
	}
	got := answered(t, New(client.Question{Params: p}, nil), "7", "enter", "enter", "2", "-")
	if want := `{"action":"accept","content":{"e":"y","n":7}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := answered(t, New(client.Question{Params: p}, nil), "esc"); got != `{"action":"cancel"}` {
		t.Error(got)
	}
}

func TestLink(t *testing.T) {
	p := &protocol.MCPServerElicitationRequestParams{Body: protocol.URLElicitation{
		ElicitationHeader: protocol.ElicitationHeader{ServerName: "issues"}, URL: "https://example.com/\u202elogin",
	}}
	o := New(client.Question{Params: p}, nil)
	if got := plain(o.View(80, 20, 0)); !strings.Contains(got, "https://example.com/\ufffdlogin") {
		t.Errorf("%s", got)
	}
	if got := answered(t, o, "y"); got != `{"action":"accept"}` {
		t.Error(got)
	}
}

// Whatever is asked and typed, nothing is drawn outside, and the answers stay in sight.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := command()
		p.Command, p.Reason = ptr(rapid.String().Draw(t, "command")), ptr(rapid.String().Draw(t, "reason"))
		form := &protocol.ToolRequestUserInputParams{Questions: []protocol.ToolRequestUserInputQuestion{{ID: "q", Question: rapid.String().Draw(t, "question")}}}
		for _, params := range []any{p, form} {
			o := New(client.Question{Params: params}, nil)
			width, height := rapid.IntRange(1, 60).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "height")
			for range rapid.IntRange(0, 10).Draw(t, "keys") {
				k := Key{Text: rapid.String().Draw(t, "text")}
				if rapid.Bool().Draw(t, "action") {
					k = Key{Action: rapid.SampledFrom([]keys.Action{keys.PageUp, keys.PageDown, keys.Delete}).Draw(t, "action")}
				}
				if _, done := o.Press(k); done {
					break
				}
				lines := o.View(width, height, 0)
				if len(lines) > height {
					t.Fatalf("%d lines in %d", len(lines), height)
				}
				for _, l := range lines {
					if l.Width() > width {
						t.Fatalf("%q is wider than %d", l.Plain(), width)
					}
				}
			}
		}
	})
}
