package arch

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Binaries are the packages of the shipped programs, by name.
var Binaries = map[string]string{
	"gantry":                   "host/cmd/gantry",
	"gantry-codemode":          "sdk/codemode/cmd/gantry-codemode",
	"gantry-launch":            "host/cmd/gantry-launch",
	"gantry-postgres":          "host/cmd/gantry-postgres",
	"gantry-tool-browser":      "plugins/browser",
	"gantry-tool-mcp":          "plugins/mcp",
	"gantry-tool-python":       "plugins/python",
	"gantry-tool-shell":        "plugins/shell",
	"gantry-tui":               "host/cmd/gantry-tui",
	"gantry-provider-scripted": "providers/cmd/scripted",

	"gantry-provider-anthropic":  "providers/cmd/anthropic",
	"gantry-provider-bedrock":    "providers/cmd/bedrock",
	"gantry-provider-compatible": "providers/cmd/compatible",
	"gantry-provider-google":     "providers/cmd/google",
	"gantry-provider-ollama":     "providers/cmd/ollama",
	"gantry-provider-openai":     "providers/cmd/openai",
}

// Dependencies lists the packages that a binary links on Linux, without internal packages of the standard library.
func Dependencies(dir, pkg string) ([]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "-f", "{{.ImportPath}}", "./"+pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	lines := strings.Fields(string(out))
	lines = slices.DeleteFunc(lines, func(p string) bool {
		first, _, _ := strings.Cut(p, "/")
		standard := !strings.Contains(first, ".")
		return standard && (strings.Contains(p, "internal") || first == "vendor" || first == "runtime")
	})
	slices.Sort(lines)
	return lines, nil
}
