package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/e2e/rig"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/tool"
	"google.golang.org/protobuf/proto"
)

// enforced has for each permission of a plugin the test that proves it: without the permission a real plugin is refused, with
// it the same plugin works.
var enforced = map[string]func(*testing.T){
	"permissions.network":      TestPluginReachesWhatItMay,
	"permissions.read":         TestPluginReachesWhatItMay,
	"permissions.write":        TestPluginReachesWhatItMay,
	"permissions.exec":         TestProgramsAreEnforced,
	"permissions.capabilities": TestCapabilitiesAreEnforced,
	"Manifest.capabilities":    TestCapabilitiesAreEnforced,
	"CommandSpec.side_effects": TestCommandSideEffectsAreEnforced,
}

// grantsNothing are the fields of a manifest and of a command that describe and ask for no permission.
var grantsNothing = []string{
	"Manifest.name", "Manifest.version", "Manifest.kind", "Manifest.contract_versions", "Manifest.description", "Manifest.config",
	"Manifest.host_services", "Manifest.limits", "Manifest.instructions", "Manifest.commands", "Manifest.handover",
	"Manifest.tools", "CommandSpec.name", "CommandSpec.description", "CommandSpec.calls_tool", "CommandSpec.input_schema_json",
}

// A permission that is written, shown and locked, and that no code enforces, must not exist: each attribute of a permissions block,
// and each field by which a plugin asks for something, has its test.
func TestEveryPermissionIsEnforced(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, block := range []string{schema.BlockPlugin, schema.BlockProvider} {
		for _, a := range schema.Root().Block(block).Block(schema.BlockPermissions).Attributes {
			there["permissions."+a.Name] = true
		}
	}
	for _, m := range []proto.Message{&gantryv1.Manifest{}, &gantryv1.CommandSpec{}} {
		d := m.ProtoReflect().Descriptor()
		for i := range d.Fields().Len() {
			there[string(d.Name())+"."+string(d.Fields().Get(i).Name())] = true
		}
	}
	described := map[string]bool{}
	for _, name := range grantsNothing {
		described[name] = true
		if !there[name] {
			t.Errorf("%s does not exist any more: take it out of grantsNothing", name)
		}
	}
	for name := range there {
		if enforced[name] == nil && !described[name] {
			t.Errorf("%s is new: enforce it, and name the end-to-end test that proves it in enforced. If it grants nothing, name it in grantsNothing", name)
		}
	}
	for name := range enforced {
		if !there[name] || described[name] {
			t.Errorf("%s is in enforced, and is no permission", name)
		}
	}
}

type reachArgs struct {
	Address string `json:"address"`
	Read    string `json:"read"`
	Write   string `json:"write"`
}

// reaches is a plugin whose own process reaches for the network and for files.
func reaches() tool.Plugin {
	return tool.Plugin{
		Name: "reaches", Version: "1.0.0", Description: "Reaches.",
		Tools: []tool.Tool{
			tool.New("reach", "Reaches for what it is told.", func(ctx context.Context, _ *tool.Call, in reachArgs) (*tool.Result, error) {
				conn, network := (&net.Dialer{}).DialContext(ctx, "tcp", in.Address)
				if network == nil {
					_ = conn.Close()
				}
				_, read := os.ReadFile(in.Read)
				write := os.WriteFile(in.Write, []byte("written"), 0o600)
				return tool.Text(fmt.Sprintf("network: %v\nread: %v\nwrite: %v\n", network, read, write)), nil
			}, tool.ReadOnly()),
		},
	}
}

// A plugin's own process reaches the network, reads the user's keys and writes files where its block grants it, each by itself,
// and is refused otherwise.
func TestPluginReachesWhatItMay(t *testing.T) {
	t.Parallel()
	for _, granted := range []string{"", "network", "read", "write"} {
		t.Run("granted "+granted, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			r := rig.New(t, "")
			home := t.TempDir()
			key, file := filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(r.Dir, "file")
			r.Write(filepath.Join(r.Home, "script.toml"), fmt.Sprintf(
				"[[step]]\ndo = [{ call = \"reach\", id = \"c1\", args = { address = %q, read = %q, write = %q } }]\n%s", ln.Addr(), key, file, finished))
			r.Env = append(r.Env, "HOME="+home)
			r.Write(key, "a private key")
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			program := r.Program("reaches", fmt.Sprintf("#!/bin/sh\n%s=reaches exec %q \"$@\"\n", oddMode, self))
			read, settings := []string{fmt.Sprintf("%q", self)}, ""
			switch granted {
			case "network":
				settings = "network = [\"*\"]\n"
			case "read":
				read = append(read, fmt.Sprintf("%q", filepath.Dir(key)))
			case "write":
				settings = fmt.Sprintf("write = [%q]\n", r.Dir)
			}
			r.Config(fmt.Sprintf("plugin \"reaches\" {\n  source = %q\n  permissions {\n    read = [%s]\n    %s\n  }\n}\n", program, strings.Join(read, ", "), settings))
			r.OK("plugin", "lock", "--yes", "reaches")
			res := r.OK("exec", "go")
			got := r.Last().Outputs()["c1"]
			for name, refusal := range map[string]string{
				"network": "operation not permitted", "read": "no such file or directory", "write": "read-only file system",
			} {
				_, line, _ := strings.Cut(got, name+": ")
				line, _, _ = strings.Cut(line, "\n")
				if name == granted && line != "<nil>" || name != granted && !strings.Contains(line, refusal) {
					t.Errorf("%s, granted %q: %q\n%s", name, granted, line, res.Stderr)
				}
			}
			if exists(r.Dir, "file") != (granted == "write") {
				t.Errorf("written: %v, granted %q", exists(r.Dir, "file"), granted)
			}
		})
	}
}
