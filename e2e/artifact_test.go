package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// What the plugin of these tests stores.
const (
	storedReport  = "<p>all is well</p>"
	storedPicture = "not really a picture"
)

// keeps is a plugin whose tools store what they make: one says so while it runs, one shows it as an image.
func keeps() tool.Plugin {
	return tool.Plugin{
		Name: "keeps", Version: "1.0.0", Description: "Keeps.",
		Tools: []tool.Tool{
			tool.New("report", "Writes a report.", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				if _, err := c.Artifact(ctx, "report.html", "text/html", strings.NewReader(storedReport)); err != nil {
					return nil, err
				}
				return tool.Text("reported"), nil
			}, tool.ReadOnly()),
			tool.New("picture", "Takes a picture.", func(ctx context.Context, c *tool.Call, _ struct{}) (*tool.Result, error) {
				ref, err := c.Env().PutArtifact(ctx, "picture.png", "image/png", strings.NewReader(storedPicture))
				if err != nil {
					return nil, err
				}
				return &tool.Result{Parts: []tool.Part{&tool.TextPart{Text: "taken"}}, Item: &contract.ImageItem{Path: "/picture.png", ArtifactSHA256: ref.SHA256}}, nil
			}, tool.ReadOnly()),
		},
	}
}

type artifact struct {
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes"`
	MediaType string `json:"mediaType"`
	Name      string `json:"name"`
}

// What a tool stores is named wherever its item is: to people, to programs, in the stored thread.
func TestStoredContentIsNamedByItsItem(t *testing.T) {
	t.Parallel()
	r := rig.New(t, `
[[step]]
when = { since_user = 0 }
times = -1
do = [{ call = "report" }, { call = "picture" }]
[[step]]
times = -1
do = [{ text = "done" }]
`)
	addOdd(t, r, "keeps", "keeps", "")
	digest := func(content string) string {
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:])
	}
	want := map[string]artifact{
		"report":  {digest(storedReport), int64(len(storedReport)), "text/html", "report.html"},
		"picture": {SHA256: digest(storedPicture)},
	}
	inEvents := func(t *testing.T, lines string) {
		t.Helper()
		found := map[string]artifact{}
		for _, e := range rig.Events(t, lines) {
			var b struct {
				Item struct {
					Type, Tool string
					Artifacts  []artifact
				}
			}
			if e.Kind == "item.completed" {
				e.Into(t, &b)
			}
			for _, a := range b.Item.Artifacts {
				found[b.Item.Tool] = a
			}
			if b.Item.Tool == "picture" && b.Item.Type != "image" {
				t.Errorf("the picture's item is of the type %q", b.Item.Type)
			}
		}
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Errorf("artifacts: %v, want %v", found, want)
		}
	}

	inEvents(t, r.OK("exec", "--events", "go").Stdout)
	id := last(t, r)
	inEvents(t, r.OK("threads", "export", id).Stdout)

	people := func(said string) {
		t.Helper()
		for _, line := range []string{"stored report.html (text/html, 18 bytes): sha256 " + want["report"].SHA256, "stored: sha256 " + want["picture"].SHA256} {
			if !strings.Contains(said, line) {
				t.Errorf("people don't read %q:\n%s", line, said)
			}
		}
	}
	people(r.OK("exec", "go").Stderr)
	shown := r.OK("threads", "show", id)
	people(shown.Stdout + shown.Stderr)

	found := map[string]artifact{}
	for line := range strings.Lines(r.OK("exec", "--json", "go").Stdout) {
		var e struct {
			Type string
			Item struct {
				Type, Tool string
				Artifacts  []artifact
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		for _, a := range e.Item.Artifacts {
			found[e.Type+" "+e.Item.Type] = a
		}
	}
	if fmt.Sprint(found) != fmt.Sprint(map[string]artifact{"item.completed mcp_tool_call": want["report"], "item.completed image_view": want["picture"]}) {
		t.Errorf("--json names %v", found)
	}

	for _, a := range want {
		if content, err := os.ReadFile(filepath.Join(r.Home, "artifacts", a.SHA256[:2], a.SHA256)); err != nil || digest(string(content)) != a.SHA256 {
			t.Errorf("%s is not stored: %v", a.SHA256, err)
		}
	}
}
