package reach

import (
	"path/filepath"
	"slices"
	"strings"
)

// kind describes what a program does with its arguments.
type kind int

const (
	plain    kind = iota // runs nothing that its arguments name, as far as is known
	shell                // a script, -c LINE, or standard input
	python               // a script, -c CODE, -m MODULE; modules are in the script's folder
	modules              // a script, -e CODE; modules are in the script's folder
	text                 // a program as an argument, or -f FILE
	wrapper              // followed by another command
	runner               // runs what the project's files say
	finder               // find: a command after -exec
	batch                // xargs: a command with arguments from standard input
	folder               // run-parts: all programs in a folder
	manager              // uv, npx and similar: a script, or whatever the project's files say
	versions             // git
)

// kinds lists the programs that run something else. An unlisted program is assumed to run nothing in the workspace except files
// among its arguments that are executable or named like a script.
var kinds = map[kind][]string{
	shell:  {"bash", "sh", "zsh", "dash", "ksh", "mksh", "ash", "fish", "busybox", "rbash"},
	python: {"python", "pypy"},
	modules: {"node", "nodejs", "tsx", "ts-node", "ruby", "perl", "php", "lua", "luajit", "Rscript", "julia", "raku", "tclsh", "guile", "groovy", "elixir",
		"pwsh", "osascript", "racket", "java", "swift", "expect"},
	text: {"awk", "gawk", "mawk", "nawk", "jq", "yq", "sed", "bc", "dc", "m4"},
	wrapper: {"env", "exec", "command", "builtin", "nohup", "time", "timeout", "nice", "ionice", "sudo", "doas", "setsid", "stdbuf", "chronic", "flock", "unbuffer",
		"strace", "ltrace", "taskset", "chrt", "systemd-run", "firejail", "unshare", "setpriv", "prlimit", "fakeroot", "script", "watch", "entr", "su", "runuser", "chroot", "catchsegv", "valgrind", "gdb", "noglob", "nocorrect", "coproc",
		"setarch", "linux32", "linux64", "i386", "x86_64", "choom", "numactl", "nsenter", "ssh-agent", "dbus-run-session", "xvfb-run", "start-stop-daemon", "logsave", "pkexec", "run0"},
	runner: {"make", "gmake", "bmake", "ninja", "just", "task", "npm", "pnpm", "yarn", "rake", "bundle", "bundler", "rspec", "composer", "phpunit", "cargo", "gradle", "gradlew", "mvn",
		"mvnw", "tox", "nox", "pytest", "py.test", "pre-commit", "husky", "lint-staged", "lefthook", "eslint", "prettier", "stylelint", "jest", "vitest", "mocha", "ava", "turbo", "nx",
		"lerna", "gulp", "grunt", "webpack", "vite", "rollup", "bazel", "buck2", "pants", "cmake", "ctest", "meson", "mix", "rebar3", "sbt", "lein", "dotnet", "mage", "invoke", "inv", "fab",
		"ant", "scons", "waf", "tilt", "earthly", "dagger", "mise", "asdf", "direnv", "devbox", "nix", "nix-shell", "docker-compose", "hg", "svn", "jj", "stack", "cabal", "zig", "vim", "vi", "ex", "nvim", "emacs", "mypy", "pylint", "flake8", "rubocop", "commitlint", "phpstan", "php-cs-fixer", "psalm", "rector",
		"playwright", "cypress", "karma", "tailwindcss", "postcss", "textlint", "markdownlint-cli2", "cspell", "next", "nuxt", "astro", "ansible-playbook", "mkdocs", "sphinx-build"},
	finder: {"find", "fd", "fdfind"}, batch: {"xargs", "parallel"}, folder: {"run-parts"}, versions: {"git"},
	manager: {"uv", "uvx", "npx", "bunx", "poetry", "pipenv", "rye", "hatch", "pdm", "deno", "bun"},
}

// runs lists subcommands that run project files, for programs that otherwise do not.
var runs = map[string][]string{"go": {"run", "test", "generate", "tool"}, "docker": {"compose"}, "swift": {"run", "test", "build"}}

// kindOf returns the kind of the program with this name.
func kindOf(name string) kind {
	name = filepath.Base(name)
	bare := strings.TrimRight(name, "0123456789.")
	for k, names := range kinds {
		if slices.Contains(names, name) || slices.Contains(names, bare) {
			return k
		}
	}
	return plain
}

// lookers are programs whose arguments are never commands.
var lookers = []string{"grep", "egrep", "fgrep", "rg", "ag", "which", "whereis", "man", "ls", "cat", "head", "tail", "wc", "diff", "cmp", "apt", "apt-get", "brew", "pip", "pip3", "pkill", "pgrep"}

// says are the files that a task runner reads.
var says = []string{
	"Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "package.json", "Taskfile.yml", "Taskfile.yaml", "build.ninja", "Rakefile", "Gemfile", "composer.json",
	"tox.ini", "noxfile.py", "conftest.py", "pytest.ini", "setup.cfg", "pyproject.toml", ".pre-commit-config.yaml", "lefthook.yml", "build.gradle", "build.gradle.kts", "settings.gradle", "pom.xml",
	"Cargo.toml", "build.rs", "magefile.go", "tasks.py", "build.xml", "SConstruct", "mise.toml", ".envrc", "flake.nix", "shell.nix",
}

// ofShell are builtin commands of shells that run nothing.
var ofShell = []string{
	"[", "[[", "test", "echo", "printf", "true", "false", ":", "read", "export", "unset", "set", "shift", "return", "exit", "break", "continue", "local", "declare", "typeset",
	"readonly", "umask", "ulimit", "wait", "kill", "jobs", "fg", "bg", "type", "hash", "alias", "unalias", "pwd", "getopts", "let", "times", "shopt", "dirs", "popd", "disown", "mapfile", "readarray",
}

// scriptSuffixes are extensions of files that some program runs.
var scriptSuffixes = []string{
	".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".lua", ".r", ".jq", ".awk", ".sed", ".ps1", ".mk",
}

func isScript(name string) bool {
	return slices.Contains(scriptSuffixes, strings.ToLower(filepath.Ext(name)))
}
