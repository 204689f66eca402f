package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// What a plugin reaches is what its block names, and what a project's file names is reached at public addresses only.
func TestReach(t *testing.T) {
	t.Parallel()
	manifest := &contract.Manifest{Kind: contract.KindTool, Capabilities: []string{"network"}, Config: contract.ConfigBlock{
		Attributes: []contract.ConfigAttribute{{Name: "url", Type: json.RawMessage(`"string"`), Endpoint: true}},
	}}
	const source = "plugin \"p\" {\n  source = \"/bin/p\"\n"
	for name, tc := range map[string]struct{ home, project, want string }{
		"nothing":              {"", "", "[] []"},
		"endpoint":             {"config { url = \"http://127.0.0.1:3000/mcp\" }", "", "[127.0.0.1:3000] [127.0.0.1]"},
		"permission":           {"permissions { network = [\"*.a.test\", \"10.0.0.1\"] }", "", "[*.a.test 10.0.0.1] []"},
		"both of IPv6":         {"config { url = \"https://[::1]\" }\npermissions { network = [\"::1\"] }", "", "[[::1]:443 ::1] [[::1]]"},
		"project's endpoint":   {"", "config { url = \"http://127.0.0.1:3000/mcp\" }", "[] [127.0.0.1]"},
		"project's permission": {"config { url = \"https://a.test\" }", "permissions { network = [\"10.0.0.1\"] }", "[a.test:443] [a.test 10.0.0.1]"},
		"withheld":             {"config { url = \"https://a.test\" }\npermissions { capabilities = [] }", "", "[] []"},
	} {
		root := write(t, map[string]string{"home/gantry.hcl": source + tc.home + "\n}", "project/.gantry/gantry.hcl": "plugin \"p\" {\n" + tc.project + "\n}"})
		c := mustLoad(t, options(root))
		r := must(c.Plugin("p")).Reach(manifest)
		if got := fmt.Sprint(r.Local, " ", r.Public); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		without := *manifest
		without.Capabilities = nil
		_, _, ds := must(c.Plugin("p")).Render(&without)
		warned := len(ds) == 1 && ds[0].Summary == "permissions { network } has no effect"
		if wanted := strings.Contains(tc.home+tc.project, "network ="); warned != wanted {
			t.Errorf("%s: without the capability, %v", name, ds)
		}
		if r := must(c.Plugin("p")).Reach(&contract.Manifest{Kind: contract.KindTool, Config: manifest.Config}); len(r.All()) > 0 {
			t.Errorf("%s: without the capability, %v", name, r)
		}
	}
}
