package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// What was accepted of other servers of the same name is where a pin begins. A file that can't be read is a problem of its server only.
func TestEarlierIsOfOneServer(t *testing.T) {
	env := &tool.Env{DataDir: t.TempDir()}
	of := func(name, command string) *accepted {
		return newAccepted(env, Server{Name: name, Process: configblock.Process{Command: command}})
	}
	put := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	known := func(server string) []byte {
		b, err := json.Marshal(definitions{Server: server, Complete: true, Tools: map[string]catalog.Tool{"t": {Name: "t", Digest: "of " + server}}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	put(of("my-srv", "old").path, known("my-srv"))
	names := []string{"my-srv", "legacy", "io.test/my server", "../../srv", strings.Repeat("long/", 60)}
	for _, name := range names[2:] {
		path := of(name, "old").path
		if filepath.Dir(path) != env.DataDir {
			t.Fatalf("the file of %q is %s", name, path)
		}
		put(path, known(name))
	}
	put(of("srv", "old").path, []byte("damaged"))
	put(filepath.Join(env.DataDir, "accepted-"+strings.Repeat("0", 32)+".json"), known("legacy"))
	for _, name := range names {
		if d, err := of(name, "new").earlier(); err != nil || !d.Complete || d.Tools["t"].Digest != "of "+name {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if d, err := of("other", "new").earlier(); err != nil || d.Complete || len(d.Tools) > 0 {
		t.Errorf("a server of which nothing is known: %+v, %v", d, err)
	}
	if _, err := of("srv", "new").earlier(); err == nil || !strings.Contains(err.Error(), "can't be read") {
		t.Errorf("the server of the damaged file: %v", err)
	}
	// Of whom it is can't be told, so it may be of any.
	put(filepath.Join(env.DataDir, "accepted-"+strings.Repeat("1", 32)+".json"), []byte("damaged"))
	if _, err := of("other", "new").earlier(); err == nil {
		t.Error("a damaged file without a name is ignored")
	}
}
