//go:build unix

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const bash = "/bin/bash"

// home is a user with profiles.
type home struct {
	dir   string
	env   []string
	shell string
}

func newHome(t *testing.T, files map[string]string, env ...string) *home {
	return newHomeOf(t, bash, files, env...)
}

func newHomeOf(t *testing.T, shell string, files map[string]string, env ...string) *home {
	t.Helper()
	if _, err := os.Stat(shell); err != nil {
		t.Skip("no " + shell + " here")
	}
	dir := t.TempDir()
	h := &home{shell: shell, dir: dir, env: append([]string{"HOME=" + dir, "PATH=/usr/bin:/bin", "TERM=dumb", "PAGER=cat", "LANG=C"}, env...)}
	for name, text := range files {
		h.write(t, name, text)
	}
	return h
}

func (h *home) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run is a [Run] on this machine.
func (h *home) run(ctx context.Context, argv, env []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir, slices.Concat(h.env, env)
	return cmd.Output()
}

// command runs one in a state and returns all that it prints.
func (h *home) command(t *testing.T, s *State, text string, env ...string) string {
	t.Helper()
	argv := s.Argv(text)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir, slices.Concat(h.env, env, s.Env())
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out)
}

// login runs a command the way that a snapshot saves.
func (h *home) login(t *testing.T, text string) string {
	t.Helper()
	out, err := h.run(t.Context(), []string{bash, "-lc", readRC + text}, nil)
	if err != nil {
		t.Fatalf("login: %v", err)
	}
	return string(out)
}

func (h *home) take(t *testing.T) *State {
	t.Helper()
	s, err := Take(t.Context(), h.shell, h.run)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What a command sees is what it would see after a login.
func TestSameAsALogin(t *testing.T) {
	long := strings.Repeat("x", pieceBytes)
	for _, tt := range []struct{ name, profile, rc, command string }{
		{"nothing", "", "", "echo $0 $# $-; shopt | grep -v login_shell; set +o"},
		{"exports", "export A=1 B='two words' C=$'tab\\there\\nline'\nexport D", "", `printf '<%s>' "$A" "$B" "$C" "${D-unset}"; env | grep -c '^[AB]='`},
		{"odd values", `export A='$(echo no) "quoted" \back ` + "`tick`" + `' B="it's"`, "", `printf '<%s>' "$A" "$B"`},
		{"bytes", "export A=$'\\xff\\xfe é'", "", `printf '<%s>' "$A"`},
		{"variables of the shell", "A=1\nB=(1 'two words' 3)\ndeclare -A C=([k]=v [l]='w x')\ndeclare -i D=5\nreadonly E=6", "",
			`echo "$A ${B[1]} ${#B[@]} ${C[l]} $((D)) $E"; env | grep -c '^[A-E]=' ; declare -p B C D E`},
		{"functions", "f() { echo \"f $1\"; }\ng() (\ncat <<END\nhere $1\nEND\n)\nfunction h { local x=1; case $1 in a|b) echo ab;; *) f $x;; esac; }", "",
			"f 1; g 2; h a; h c"},
		{"exported functions", "f() { echo inner; }\nexport -f f", "", "bash -c f"},
		{"options", "shopt -s globstar extglob nullglob\nset -o pipefail\nset -o noclobber", "", "shopt globstar extglob nullglob; set -o | grep -e pipefail -e noclobber; case ab in @(a|ab)) echo ext;; esac"},
		{"patterns in functions", "shopt -s extglob\nf() { case $1 in +([0-9])) echo number;; *) echo other;; esac; }", "", "f 12; f x"},
		{"nounset", "set -u", "", `echo "$-"; echo ${NO_SUCH-unset}`},
		{"aliases", "shopt -s expand_aliases\nalias ll='echo long' p='echo \"quoted\"' -- -='echo dash'", "", "ll 1\np\n- x"},
		{"aliases that are not expanded", "alias echo=false", "", "echo x; alias"},
		{"mask", "umask 027", "", "umask"},
		{"unset", "unset LANG", "", "echo hello"},
		{"the interactive file", "export A=profile", "export A=rc B=rc\nalias x=y\nf() { echo rc; }", "echo $A $B; f; alias"},
		{"a profile that talks", "echo hello; echo hello >&2", "", "echo done | tail -n 1"},
		{"a long one", "A=" + long + "\nB=" + long + "\nf() { echo " + long + "; }", "", `echo ${#A} ${#B}; f | wc -c`},
		{"builtins in disguise", "pwd() { echo no; }\nprintf() { echo no; }\nalias builtin=false", "", "type -t pwd printf"},
		{"exported although the shell had it", "export HOSTNAME", "", "env | grep -c ^HOSTNAME="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, map[string]string{".bash_profile": tt.profile, ".bashrc": tt.rc})
			got, want := h.command(t, h.take(t), tt.command), h.login(t, tt.command)
			if tt.name == "a profile that talks" {
				want = "done\n" // what it says is not the command's
			}
			if got != want {
				t.Errorf("got %q, a login gives %q", got, want)
			}
		})
	}
}

// What the environment says holds, whatever the profile says.
func TestTheEnvironmentWins(t *testing.T) {
	h := newHome(t, map[string]string{".bash_profile": `
export TERM=xterm-256color PAGER=less LANG=de_DE.UTF-8 GIT_PAGER=delta HTTP_PROXY=http://corporate:3128
`}, "HTTP_PROXY=http://127.0.0.1:1")
	s := h.take(t)
	const command = `echo "$TERM $PAGER $LANG $HTTP_PROXY ${GIT_PAGER-none}"`
	if got, want := h.command(t, s, command), "dumb cat C http://127.0.0.1:1 delta\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Also where it says more than when the snapshot was taken.
	if got, want := h.command(t, s, command, "GIT_PAGER=cat"), "dumb cat C http://127.0.0.1:1 cat\n"; got != want {
		t.Errorf("later: got %q, want %q", got, want)
	}
}

func TestPath(t *testing.T) {
	for _, tt := range []struct{ name, profile, given, later, want string }{
		{"nothing", "", "/a:/b", "", "/a:/b"},
		{"before", "PATH=/x:$PATH", "/a:/b", "", "/x:/a:/b"},
		{"behind", "PATH=$PATH:/x", "/a:/b", "", "/a:/b:/x"},
		{"between", "PATH=/a:/x:/b", "/a:/b", "", "/a:/x:/b"},
		{"anew", "PATH=/usr/x:/b", "/venv:/b", "", "/venv:/b:/usr/x"},
		{"with a space", "PATH='/my programs':$PATH", "/a", "", "/my programs:/a"},
		{"with a dollar", `PATH='/$x/"y"':$PATH`, "/a", "", `/$x/"y":/a`},
		{"given another one later", "PATH=/x:$PATH:/y", "/a:/b", "/venv:/a:/y", "/venv:/a:/y:/x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			// What the system's profile does to PATH is its own: here only the user's counts.
			h := newHome(t, map[string]string{".bash_profile": "PATH=$GIVEN\n" + tt.profile + "\nexport PATH\n"}, "GIVEN="+tt.given, "PATH="+tt.given)
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

func TestSecretsAreLeftOut(t *testing.T) {
	h := newHome(t, map[string]string{".bash_profile": "export GITHUB_TOKEN=hidden1 my_api_key=hidden2 DB_PASSWORD=hidden3 FINE=fine\naws_secret=hidden4\n"})
	s := h.take(t)
	if strings.Contains(s.script, "hidden") {
		t.Errorf("the snapshot holds a secret: %s", s.script)
	}
	if got := h.command(t, s, `echo "$GITHUB_TOKEN$my_api_key$DB_PASSWORD$aws_secret$FINE"`); got != "fine\n" {
		t.Errorf("got %q", got)
	}
	// What the host gives on purpose is not the profile's.
	if got := h.command(t, s, `echo "$GITHUB_TOKEN"`, "GITHUB_TOKEN=given"); got != "given\n" {
		t.Errorf("given: %q", got)
	}
}

// The snapshot itself is not among what the command, or its programs, see.
func TestSnapshotLeavesNoTrace(t *testing.T) {
	h := newHome(t, map[string]string{".bash_profile": "export A=1"})
	s := h.take(t)
	if len(s.Env()) == 0 {
		t.Fatal("there is no snapshot")
	}
	if got := h.command(t, s, "set | grep ^GANTRY; env | grep ^GANTRY; echo end"); got != "end\n" {
		t.Errorf("got %q", got)
	}
}

func TestUnrepeatableProfiles(t *testing.T) {
	for name, profile := range map[string]string{
		"ends": "exit 3", "becomes another program": "exec true", "changes the folder": "cd /", "traps": "trap 'echo bye' EXIT",
		"limits": "ulimit -S -n 64", "starts an agent": "export SSH_AGENT_PID=5 SSH_AUTH_SOCK=/x", "too long": "A=$(head -c 700000 /dev/zero | tr '\\0' x)",
		"odd PATH": "export PATH=$'/a\\n:/b'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, map[string]string{".bash_profile": profile})
			if s, err := Take(t.Context(), bash, h.run); err == nil {
				t.Errorf("took %q", s.script)
			}
		})
	}
}

func TestOtherShellsHaveNone(t *testing.T) {
	for _, shell := range []string{"/bin/sh", "/bin/dash", "/usr/bin/fish", "powershell.exe"} {
		if _, err := Take(t.Context(), shell, nil); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", shell, err)
		}
	}
}

func TestHowACommandRuns(t *testing.T) {
	h := newHome(t, map[string]string{".bash_profile": "export A=1"})
	s := h.take(t)
	for command, want := range map[string]string{
		"":                     "",
		"# nothing":            "",
		"cat <<E\nx $A\nE":     "x 1\n",
		`echo "$0 $# $*"`:      bash + " 0 \n",
		"echo 'a\nb' \\\n  c":  "a\nb c\n",
		"(exit 3); echo $?":    "3\n",
		"echo a; exit 3; echo": "a\n",
	} {
		if got := h.command(t, s, command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	if got := h.command(t, s, "if true; then"); !strings.Contains(got, "syntax error") {
		t.Errorf("a command that is none: %q", got)
	}
}

func TestASectionThatIsMissing(t *testing.T) {
	cut := func(_ context.Context, _, env []string) ([]byte, error) {
		_, after, _ := bytes.Cut([]byte(env[0]), []byte(`\builtin printf '\''\n%s\n'\'' '\''`))
		mark, _, _ := bytes.Cut(after, []byte(" "))
		return fmt.Appendf(nil, "noise\n%s options\nshopt -s x\n", mark), nil
	}
	if _, err := Take(t.Context(), bash, cut); err == nil || !strings.Contains(err.Error(), "ended early") {
		t.Errorf("error = %v", err)
	}
}

// The parser is recursive: a profile with a million brackets would overflow its stack.
func TestNestedProfile(t *testing.T) {
	for _, open := range []string{"$((", "(", "{ ", "a["} {
		if _, err := statements("x=" + strings.Repeat(open, 1<<20)); err == nil {
			t.Errorf("%q is parsed", open)
		}
	}
	if _, err := statements(strings.Repeat("f () { a=([0]=1); }\n", maxOpen)); err != nil {
		t.Errorf("many brackets in a row: %v", err)
	}
}

// Whatever a shell prints of itself, what comes of it is a script.
func FuzzDifference(f *testing.F) {
	f.Add("declare -- A=\"1\"\n", "declare -x A=\"2\"\ndeclare -ar B=([0]=\"x\")\ndeclare -x PATH=\"/a\"\n", "f () \n{ \n    echo\n}\n", "alias a='b'\n")
	f.Add("", "declare -x PATH=$'a\\n'\ndeclare -p\ndeclare -f f\n", "f() (cat <<E\nx\nE\n)", "unalias -a; alias")
	f.Fuzz(func(t *testing.T, before, variables, functions, aliases string) {
		script, err := difference(view{"variables": before}, view{"variables": variables, "functions": functions, "aliases": aliases})
		if err != nil {
			return
		}
		if _, err := statements(script); err != nil {
			t.Errorf("%v in %q", err, script)
		}
	})
}
