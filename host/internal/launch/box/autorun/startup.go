package autorun

import (
	"io/fs"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
)

// startup is executed from the user's home folder whenever a shell, git, another tool or the desktop starts. What of it is in a
// writable root stays read-only.
var startup = []string{
	// Shells, terminals, the desktop.
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_completion", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
	".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".config/bash", ".config/zsh", ".config/fish", ".config/nushell", ".config/powershell", ".config/direnv", ".config/mise",
	".config/starship.toml", ".inputrc", ".oh-my-zsh", ".oh-my-bash", ".zinit", ".zplug", ".antigen", ".fzf.bash", ".fzf.zsh", ".xprofile", ".xinitrc", ".xsession",
	".xsessionrc", ".pam_environment", ".config/autostart", ".config/systemd/user", ".config/environment.d", ".config/plasma-workspace", ".local/share/applications",
	".local/share/dbus-1/services", ".config/kitty", ".config/alacritty", ".config/wezterm", ".wezterm.lua", ".config/zellij", ".tmux.conf", ".config/tmux", ".tmux", ".screenrc",
	"Library/LaunchAgents",
	// Programs found through PATH, and version managers.
	".local/bin", "bin", ".cargo/bin", ".cargo/env", "go/bin", ".bun/bin", ".deno/bin", ".local/share/pnpm", ".nvm", ".pyenv/bin", ".pyenv/shims", ".rbenv/bin", ".rbenv/shims",
	".asdf/bin", ".asdf/shims", ".asdf/asdf.sh", ".volta/bin", ".sdkman/bin", ".ghcup/env", ".ghcup/bin",
	// Tool settings that name programs.
	".gitconfig", ".config/git", ".hgrc", ".config/hg", ".config/jj", ".config/sapling", ".ssh/config", ".ssh/authorized_keys", ".ssh/authorized_keys2", ".ssh/rc",
	".ssh/environment", ".gnupg/gpg.conf", ".gnupg/gpg-agent.conf", ".docker/config.json", ".docker/cli-plugins", ".kube/config", ".config/containers", ".npmrc", ".yarnrc",
	".yarnrc.yml", ".bunfig.toml", ".pnpmfile.cjs", ".cargo/config.toml", ".cargo/config", ".config/go/env", ".config/pip", ".pip", ".pypirc", ".condarc", ".gemrc", ".bazelrc",
	".gradle/init.gradle", ".gradle/init.gradle.kts", ".gradle/init.d", ".gradle/gradle.properties", ".m2/settings.xml", ".mavenrc", ".terraformrc", ".config/gh", ".mailcap",
	// Interpreters, debuggers, editors, agents.
	".pythonrc", ".pythonrc.py", ".pdbrc", "usercustomize.py", "sitecustomize.py", ".ipython", ".irbrc", ".pryrc", ".Rprofile", ".perldb", ".gdbinit", ".config/gdb", ".lldbinit",
	".psqlrc", ".sqliterc", ".vimrc", ".vim", ".gvimrc", ".exrc", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".config/helix", ".nanorc", ".vscode/extensions",
	".vscode-server/extensions", ".config/Code/User", ".cursor", ".claude", ".claude.json", ".gemini", ".config/opencode", ".config/goose",
}

func StartupFiles(home string) []string {
	out := make([]string, 0, len(startup))
	for _, name := range startup {
		out = append(out, filepath.Join(home, name))
	}
	return out
}

// addStartup adds what is executed from the user's home folder and is in root.
func (p *Found) addStartup(root, home string) {
	var site []string
	if python := filepath.Join(home, ".local/lib"); fspath.Below(python, root) { // every start of an interpreter executes files there
		site, _ = filepath.Glob(filepath.Join(python, "python*/site-packages"))
	}
	for _, path := range append(StartupFiles(home), site...) {
		if !fspath.Below(path, root) {
			continue
		}
		id, mode, ok := fspath.Lstat(path)
		switch {
		case !ok:
			continue
		case mode.IsDir():
			id = fspath.Persistent(path, id) // its content is kept read-only
			fallthrough
		case mode.IsRegular():
			p.ReadOnly = append(p.ReadOnly, path)
		case mode&fs.ModeSymlink != 0:
			if to, err := filepath.EvalSymlinks(path); err == nil && fspath.BelowAny(to, p.Roots) {
				p.ReadOnly = append(p.ReadOnly, to)
			}
		}
		p.add(root, path, KindStartup, id)
	}
}
