//go:build unix

package snapshot

import (
	"os/exec"
	"strings"
	"testing"
)

// zshHome is a user of zsh; ~/.zshrc is rc.
func zshHome(t *testing.T, rc string, env ...string) *home {
	t.Helper()
	path, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("no zsh here")
	}
	return newHomeOf(t, path, map[string]string{".zshrc": rc}, env...)
}

func TestZsh(t *testing.T) {
	long := strings.Repeat("x", pieceBytes)
	for _, tt := range []struct{ name, rc, command, want string }{
		{"nothing", "", "echo $# a", "0 a\n"},
		{"exports", "export A=1 B='two words' C=$'tab\\there\\nline'\nexport -i D=4", `printf '<%s>' "$A" "$B" "$C"; env | grep -c '^[ABD]='`, "<1><two words><tab\there\nline>3\n"},
		{"odd values", `export A='$(echo no) "quoted" \back ` + "`tick`" + `' B="it's" C='!x'`, `print -r -- "$A|$B|$C"`, `$(echo no) "quoted" \back ` + "`tick`|it's|!x\n"},
		{"bytes", "export A=$'\\xff\\xfe é'", `printf '<%s>' "$A"`, "<\xff\xfe é>"},
		{"variables of the shell", "A=1\nB=(1 'two words' 3)\ntypeset -A C=(k v 'l m' 'w x')\ntypeset -i D=5\nreadonly E=6\ntypeset -F F=1.5", `echo "$A ${B[2]} ${#B} ${C[l m]} $((D+1)) $E $F"`,
			"1 two words 3 w x 6 6 1.5000000000\n"},
		{"functions", "f() { echo \"f $1\"; }\ng() (\ncat <<END\nhere $1\nEND\n)\nh() { local x=1; case $1 in a|b) echo 'a b';; *) f $x;; esac; }\nodd-name.x() echo odd", "f 1; g 2; h a; h c; odd-name.x",
			"f 1\nhere 2\na b\nf 1\nodd\n"},
		{"functions that are loaded when they are called", "autoload -Uz is-at-least\nfpath=($HOME/fs $fpath)\nautoload mine", "is-at-least 1 2 && echo yes; mkdir -p fs; echo 'echo mine' >fs/mine; mine", "yes\nmine\n"},
		{"options", "setopt extendedglob nullglob pipefail noclobber shwordsplit", "a='x y'; print -l $a; print -r -- nosuch*; [[ ab == (#i)AB ]] && echo ext; false | true || echo failed", "x\ny\n\next\nfailed\n"},
		{"patterns in functions", "setopt extendedglob\nf() { case $1 in [0-9]##) echo number;; *) echo other;; esac; }", "f 12; f x", "number\nother\n"},
		{"quotes of its own", "setopt rcquotes\nA='it''s'", "echo $A 'that''s'", "it's that's\n"},
		{"nounset", "setopt nounset", `echo ${NO_SUCH-unset}; (echo $NO_SUCH) 2>/dev/null || echo refused`, "unset\nrefused\n"},
		{"all exported", "A=1\nsetopt allexport\nunset A; B=2; unset B; C=3", "env | grep -c '^[AB]='; env | grep '^C='", "0\nC=3\n"},
		{"aliases", "alias ll='echo long' -- -='echo dash'\nalias -g UP='| tr a-z A-Z'\nalias -s txt='echo text'", "ll 1\n- x\necho up UP\nnote.txt", "long 1\ndash x\nUP\ntext note.txt\n"},
		{"mask", "umask 027", "umask", "027\n"},
		{"named folders", "hash -d etc=/etc", "echo ~etc", "/etc\n"},
		{"a profile that talks", "echo hello; echo hello >&2", "echo done", "done\n"},
		{"a long one", "A=" + long + "\nf() { echo " + long + "; }", "echo ${#A}; f | wc -c | tr -d ' '", "98304\n98305\n"},
		{"completion", "autoload -Uz compinit && compinit -u -D\nA=1", "echo $A; typeset -f _git | wc -l | tr -d ' '", "1\n0\n"},
		{"builtins in disguise", "print() { echo no; }\nalias builtin=false", "whence -w print", "print: function\n"},
		{"for people only", "[[ -o interactive ]] || return\nA=1", "echo ${A-none}", "none\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := zshHome(t, tt.rc)
			if got := h.command(t, h.take(t), tt.command); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Every file that a login reads counts, in its order.
func TestZshProfiles(t *testing.T) {
	h := zshHome(t, "export D=rc A=$A,rc")
	h.write(t, ".zshenv", "export A=env B=env TERM=fancy")
	h.write(t, ".zprofile", "export B=profile A=$A,profile")
	h.write(t, ".zlogin", "export C=login A=$A,login")
	if got, want := h.command(t, h.take(t), `echo "$A $B $C $D $TERM"`), "env,profile,login,rc profile login rc dumb\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestZshTheEnvironmentWins(t *testing.T) {
	h := zshHome(t, "export TERM=xterm-256color PAGER=less LANG=de_DE.UTF-8 GIT_PAGER=delta HTTP_PROXY=http://corporate:3128", "HTTP_PROXY=http://127.0.0.1:1")
	s := h.take(t)
	const command = `echo "$TERM $PAGER $LANG $HTTP_PROXY ${GIT_PAGER-none}"`
	if got, want := h.command(t, s, command), "dumb cat C http://127.0.0.1:1 delta\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := h.command(t, s, command, "GIT_PAGER=cat"), "dumb cat C http://127.0.0.1:1 cat\n"; got != want {
		t.Errorf("later: got %q, want %q", got, want)
	}
}

func TestZshPath(t *testing.T) {
	for _, tt := range []struct{ rc, given, later, want string }{
		{"path=(/x $path)", "/usr/bin:/bin", "", "/x:/usr/bin:/bin"},
		{"typeset -U path; path+=(/y)", "/usr/bin:/bin", "/venv:/usr/bin:/bin", "/venv:/usr/bin:/bin:/y"},
		{"export PATH='/my programs':$PATH", "/usr/bin:/bin", "", "/my programs:/usr/bin:/bin"},
	} {
		t.Run(tt.rc, func(t *testing.T) {
			t.Parallel()
			h := zshHome(t, "PATH=$GIVEN\n"+tt.rc, "GIVEN="+tt.given, "PATH="+tt.given)
			given := tt.given
			if tt.later != "" {
				given = tt.later
			}
			if got := h.command(t, h.take(t), `echo "$PATH"`, "PATH="+given); got != tt.want+"\n" {
				t.Errorf("PATH = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestZshKeepsNoSecrets(t *testing.T) {
	h := zshHome(t, "export GITHUB_TOKEN=hidden1 my_api_key=hidden2 FINE=fine\naws_secret=hidden4\n")
	s := h.take(t)
	if strings.Contains(s.script, "hidden") {
		t.Errorf("the snapshot holds a secret: %s", s.script)
	}
	if got := h.command(t, s, `echo "$GITHUB_TOKEN$my_api_key$aws_secret$FINE"; set | grep ^GANTRY; env | grep ^GANTRY; echo end`); got != "fine\nend\n" {
		t.Errorf("got %q", got)
	}
}

func TestZshUnrepeatableProfiles(t *testing.T) {
	for name, rc := range map[string]string{
		"ends": "exit 3", "becomes another program": "exec true", "changes the folder": "cd /", "traps": "trap 'echo bye' EXIT",
		"limits": "ulimit -S -n 64", "starts an agent": "export SSH_AGENT_PID=5", "disables a word": "disable -r time", "odd PATH": "export PATH=$'/a\\n:/b'",
		"has a function that zsh can't write down": "setopt rcquotes\nf() { echo 'it''s' }", "renames what the language is made of": "alias for=false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := zshHome(t, rc)
			if s, err := Take(t.Context(), h.shell, h.run); err == nil {
				t.Errorf("took %q", s.script)
			}
		})
	}
}

func TestHowZshRunsACommand(t *testing.T) {
	h := zshHome(t, "export A=1")
	s := h.take(t)
	for command, want := range map[string]string{
		"":                     "",
		"# nothing":            "",
		"cat <<E\nx $A\nE":     "x 1\n",
		`echo "$0 $# $*"`:      h.shell + " 0 \n",
		"echo 'a\nb' \\\n  c":  "a\nb c\n",
		"(exit 3); echo $?":    "3\n",
		"echo $?":              "0\n",
		"echo a; exit 3; echo": "a\n",
		"echo 'it'\\''s'":      "it's\n",
	} {
		if got := h.command(t, s, command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	if got := h.command(t, s, "if true; then"); !strings.Contains(got, "parse error") {
		t.Errorf("a command that is none: %q", got)
	}
	if got := h.command(t, s, "true\nnosuchprogram"); !strings.HasPrefix(got, "(eval):2: ") {
		t.Errorf("an unknown program: %q", got)
	}
}

// Whatever zsh prints of itself: nothing panics, and what is not understood is no snapshot.
func FuzzZshDifference(f *testing.F) {
	f.Add("typeset A=1\n", "export A=2\ntypeset -a B=( 1 2 )\nexport -T PATH path=( /a )\ntypeset -g -aU b=(  )\n", "setopt extendedglob\nunsetopt unset\n", "/a:/b\n")
	f.Fuzz(func(t *testing.T, before, variables, options, path string) {
		script, err := zshDifference(view{"variables": before, "programs": path}, view{"variables": variables, "options": options, "programs": path})
		if err == nil && strings.Contains(script, "exec\n") && !strings.Contains(variables, "exec") {
			t.Errorf("it turns running off: %q", script)
		}
	})
}
