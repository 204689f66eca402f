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

// earlierRig is a plugin's folder with files of what was accepted.
type earlierRig struct {
	t   *testing.T
	env *tool.Env
}

func (r earlierRig) of(server, command string) *accepted {
	return newAccepted(r.env, Server{Name: server, Process: configblock.Process{Command: command}})
}

// put writes a file as far as it was written before it was damaged: all of it if cut is 0.
func (r earlierRig) put(path, server string, cut int) {
	r.t.Helper()
	b, err := json.Marshal(definitions{Server: server, Complete: true, Tools: map[string]catalog.Tool{"t": {Name: "t", Digest: "of " + server}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if cut > 0 {
		b = b[:cut]
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// A pin must not begin anew because the name of the plugin's folder looks like a pattern.
func TestEarlierInAFolderOfAnyName(t *testing.T) {
	for _, name := range []string{"a[b]c", "a[", "a*b", `a\b`, "a?b"} {
		r := earlierRig{t, &tool.Env{DataDir: filepath.Join(t.TempDir(), name)}}
		if d, err := r.of("srv[1]", "new").earlier(); err != nil || d.Complete || len(d.Tools) > 0 {
			t.Errorf("%s, before the folder is made: %+v, %v", name, d, err)
		}
		if err := os.Mkdir(r.env.DataDir, 0o700); err != nil {
			t.Fatal(err)
		}
		r.put(r.of("srv[1]", "old").path, "srv[1]", 0)
		if d, err := r.of("srv[1]", "new").earlier(); err != nil || !d.Complete || d.Tools["t"].Digest != "of srv[1]" {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// The name of a file that an earlier gantry has written does not say its server. Damaged, it refuses only the server at its beginning.
func TestDamagedFileOfAnEarlierName(t *testing.T) {
	r := earlierRig{t, &tool.Env{DataDir: t.TempDir()}}
	path := filepath.Join(r.env.DataDir, "accepted-"+strings.Repeat("0", 32)+".json")
	r.put(r.of("other", "old").path, "other", 0)
	r.put(path, "srv", len(`{"server":"srv","complete":tr`))
	if d, err := r.of("other", "new").earlier(); err != nil || !d.Complete {
		t.Errorf("another server: %+v, %v", d, err)
	}
	if _, err := r.of("srv", "new").earlier(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("its server: %v", err)
	}
	for _, cut := range []int{1, len(`{"serv`), len(`{"server":`), len(`{"server":"sr`)} { // it may be of any server
		r.put(path, "srv", cut)
		if _, err := r.of("other", "new").earlier(); err == nil {
			t.Errorf("a file of %d bytes is ignored", cut)
		}
	}
}
