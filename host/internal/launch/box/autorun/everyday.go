package autorun

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// everydayFiles are executed or obeyed by other programs whenever somebody builds, enters a folder, or opens an editor or an agent.
// Projects change them every day, so the sandbox lets commands write them and reports it.
var everydayFiles = []string{
	"Makefile", "makefile", "GNUmakefile", "Justfile", "justfile", "Taskfile.yml", "Rakefile", "package.json", ".npmrc", "setup.py", "conftest.py",
	"noxfile.py", "build.rs", ".envrc", ".pre-commit-config.yaml", ".gitlab-ci.yml", ".gitmodules", ".mcp.json", "AGENTS.md", "CLAUDE.md", ".cursorrules",
	"AGENTS.override.md", "GEMINI.md", ".windsurfrules", ".clinerules", "pyproject.toml", "build.gradle", "build.gradle.kts", "flake.nix", "sitecustomize.py", "usercustomize.py",
	".venv/bin/activate", "venv/bin/activate", ".idea", ".idea/runConfigurations", ".run", ".claude/commands", ".claude/agents", ".claude/hooks", ".cursor/rules", ".github/actions",
	".yarnrc.yml", ".pnpmfile.cjs", ".cargo/config.toml", ".bazelrc", "gradlew", "lefthook.yml", "mise.toml", ".mise.toml", ".exrc", ".nvim.lua", ".gdbinit",
	".claude/settings.json", ".claude/settings.local.json", ".cursor/mcp.json", ".cursor/hooks.json", ".gemini/settings.json", ".vscode/mcp.json",
	".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".devcontainer/devcontainer.json", ".husky", ".github/workflows",
}

// maxHooks bounds the files that are looked at in each of them that is a folder.
const maxHooks = 100

// enteredNames are the everydayFiles that take effect in every folder, not only at the top of a project.
var enteredNames = []string{".envrc", ".vscode", ".idea", ".claude", ".cursor", ".mcp.json", "AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "GEMINI.md"}

// EverydayFiles returns the everydayFiles that exist in roots and at the paths in entered, see [Index.Entered].
func EverydayFiles(roots, entered []string) map[string]fspath.Identity {
	out := map[string]fspath.Identity{}
	look := func(path string) {
		id, mode, ok := fspath.Lstat(path)
		switch {
		case !ok:
		case !mode.IsDir():
			out[path] = id
		default:
			entries, _ := os.ReadDir(path)
			for _, e := range entries[:min(len(entries), maxHooks)] {
				in := filepath.Join(path, e.Name())
				if id, mode, ok := fspath.Lstat(in); ok && !mode.IsDir() {
					out[in] = id
				}
			}
		}
	}
	for _, root := range roots {
		for _, name := range everydayFiles {
			look(filepath.Join(root, name))
		}
	}
	for _, path := range entered {
		if !fspath.IsDir(path) {
			look(path)
			continue
		}
		for _, name := range everydayFiles {
			if rest, ok := strings.CutPrefix(name, filepath.Base(path)+"/"); ok {
				look(filepath.Join(path, rest))
			}
		}
	}
	return out
}
