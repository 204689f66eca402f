package tools

import (
	"slices"
	"strings"
)

// sensitivePlaces are the places below a user's home with keys, what is executed when something else starts, and gantry's own files. They
// include those that the host keeps from commands, which a plugin can't import: TestSensitivePlacesAreTheHosts compares them.
var sensitivePlaces = []string{
	".Rprofile", ".antigen", ".asdf/asdf.sh", ".asdf/bin", ".asdf/shims", ".aws", ".azure", ".bash_aliases", ".bash_completion", ".bash_login",
	".bash_logout", ".bash_profile", ".bashrc", ".bazelrc", ".boto", ".bun/bin", ".bunfig.toml", ".cargo/bin", ".cargo/config", ".cargo/config.toml",
	".cargo/credentials", ".cargo/credentials.toml", ".cargo/env", ".claude", ".claude.json", ".codex/auth.json", ".composer/auth.json", ".condarc",
	".config/BraveSoftware", ".config/Code/User", ".config/alacritty", ".config/autostart", ".config/bash", ".config/chromium",
	".config/composer/auth.json", ".config/containers", ".config/direnv", ".config/doctl", ".config/emacs", ".config/environment.d", ".config/fish",
	".config/gantry", ".config/gcloud", ".config/gdb", ".config/gh", ".config/git", ".config/github-copilot", ".config/glab-cli", ".config/go/env",
	".config/google-chrome", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/goose", ".config/helix", ".config/heroku",
	".config/hg", ".config/hub", ".config/jj", ".config/kitty", ".config/microsoft-edge", ".config/mise", ".config/netlify", ".config/ngrok",
	".config/nushell", ".config/nvim", ".config/op", ".config/opencode", ".config/opera", ".config/pip", ".config/plasma-workspace",
	".config/powershell", ".config/pypoetry/auth.toml", ".config/rclone", ".config/sapling", ".config/starship.toml", ".config/systemd", ".config/tmux",
	".config/vivaldi", ".config/wezterm", ".config/zellij", ".config/zsh", ".cshrc", ".cursor", ".deno/bin", ".docker", ".emacs", ".emacs.d", ".exrc",
	".fly/config.yml", ".fzf.bash", ".fzf.zsh", ".gantry", ".gdbinit", ".gem/credentials", ".gemini", ".gemrc", ".ghcup/bin", ".ghcup/env",
	".git-credentials", ".gitconfig", ".gnupg", ".gradle/gradle.properties", ".gradle/init.d", ".gradle/init.gradle", ".gradle/init.gradle.kts",
	".gvimrc", ".hgrc", ".inputrc", ".ipython", ".irbrc", ".kshrc", ".kube", ".librewolf", ".lldbinit", ".local/bin", ".local/share/applications",
	".local/share/dbus-1/services", ".local/share/keyrings", ".local/share/kwalletd", ".local/share/opencode/auth.json", ".local/share/pnpm", ".login",
	".m2/settings-security.xml", ".m2/settings.xml", ".mailcap", ".mavenrc", ".mkshrc", ".mozilla", ".my.cnf", ".mylogin.cnf", ".nanorc", ".netrc",
	".ngrok2", ".npmrc", ".nvm", ".oh-my-bash", ".oh-my-zsh", ".pam_environment", ".password-store", ".pdbrc", ".perldb", ".pgpass", ".pip",
	".pnpmfile.cjs", ".profile", ".pryrc", ".psqlrc", ".pyenv/bin", ".pyenv/shims", ".pypirc", ".pythonrc", ".pythonrc.py", ".rbenv/bin",
	".rbenv/shims", ".s3cfg", ".screenrc", ".sdkman/bin", ".sqliterc", ".ssh", ".tcshrc", ".terraform.d/credentials.tfrc.json", ".terraformrc",
	".thunderbird", ".tmux", ".tmux.conf", ".var/app/com.google.Chrome", ".var/app/org.mozilla.firefox", ".vault-token", ".vim", ".vimrc", ".volta/bin",
	".vscode-server/extensions", ".vscode/extensions", ".wezterm.lua", ".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".yarnrc", ".yarnrc.yml",
	".zinit", ".zlogin", ".zlogout", ".zplug", ".zprofile", ".zshenv", ".zshrc", "Library/Cookies", "Library/Keychains", "Library/LaunchAgents", "bin",
	"go/bin", "sitecustomize.py", "snap/chromium", "snap/firefox", "usercustomize.py",
}

// sensitive reports whether a folder is, is in, or contains a sensitive place, so that no server is offered to write there. Letter case is
// ignored, as in the file systems of macOS.
func sensitive(dir string) bool {
	dir = strings.ToLower(dir)
	parts := strings.Split(strings.TrimPrefix(dir, "/"), "/")
	below := ""
	if home := homeOf(parts); home > 0 {
		below = strings.Join(parts[min(len(parts), home):], "/")
	}
	return slices.ContainsFunc(sensitivePlaces, func(place string) bool {
		place = strings.ToLower(place)
		return strings.Contains(dir+"/", "/"+place+"/") || strings.HasPrefix(place, below+"/")
	})
}

// homeOf returns how many of a path's parts are someone's home; 0: none.
func homeOf(parts []string) int {
	switch {
	case strings.EqualFold(parts[0], "root"):
		return 1
	case len(parts) > 1 && (strings.EqualFold(parts[0], "home") || strings.EqualFold(parts[0], "Users")):
		return 2
	}
	return 0
}
