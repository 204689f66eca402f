package intercept

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/plugins/shell/internal/patch"
)

const body = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch\n"

func TestArgv(t *testing.T) {
	bash := func(script string) []string { return []string{"/bin/bash", "-lc", script} }
	tests := []struct {
		name  string
		argv  []string
		patch string
		dir   string
		ok    bool
		err   error
	}{
		{"program", []string{"apply_patch", body}, body, "", true, nil},
		{"other spelling", []string{"applypatch", body}, body, "", true, nil},
		{"heredoc", bash("apply_patch <<'EOF'\n" + body + "EOF"), body, "", true, nil},
		{"heredoc with a newline at the end", bash("apply_patch <<'EOF'\n" + body + "EOF\n"), body, "", true, nil},
		{"heredoc, unquoted", bash("apply_patch <<EOF\n" + body + "EOF\n"), body, "", true, nil},
		{"heredoc, double quotes", bash("apply_patch <<\"EOF\"\n" + body + "EOF\n"), body, "", true, nil},
		{"dollars in an unquoted heredoc stay", bash("apply_patch <<EOF\n${x `y $(z\nEOF\n"), "${x `y $(z\n", "", true, nil},
		{"tabs before the lines", bash("apply_patch <<-EOF\n\t*** Begin Patch\n\tEOF\n"), "*** Begin Patch\n", "", true, nil},
		{"plain shell, not login", []string{"sh", "-c", "apply_patch <<'EOF'\n" + body + "EOF"}, body, "", true, nil},
		{"zsh", []string{"zsh", "-lc", "apply_patch <<'EOF'\n" + body + "EOF"}, body, "", true, nil},
		{"powershell", []string{"pwsh", "-NoProfile", "-Command", "apply_patch <<'EOF'\n" + body + "EOF"}, body, "", true, nil},
		{"powershell with a profile", []string{"powershell.exe", "-Command", "apply_patch <<'EOF'\n" + body + "EOF"}, body, "", true, nil},
		{"cmd", []string{"cmd", "/c", "apply_patch <<'EOF'\n" + body + "EOF"}, body, "", true, nil},
		{"cd", bash("cd sub && apply_patch <<'EOF'\n" + body + "EOF"), body, "sub", true, nil},
		{"cd, double quotes", bash("cd \"s p\" && applypatch <<PATCH\n" + body + "PATCH"), body, "s p", true, nil},
		{"cd, on a line of its own", bash("cd sub &&\n  apply_patch <<'EOF'\n" + body + "EOF"), body, "sub", true, nil},
		{"escaped delimiter", bash("apply_patch <<\\EOF\n" + body + "EOF"), body, "", true, nil},
		{"a delimiter of several words", bash("apply_patch <<'END OF PATCH'\n" + body + "END OF PATCH\n"), body, "", true, nil},
		{"cd, single quotes", bash("cd 's p' && apply_patch <<'EOF'\n" + body + "EOF"), body, "s p", true, nil},
		{"garbage inside is found out later", bash("apply_patch <<'EOF'\ngarbage\nEOF"), "garbage\n", "", true, nil},
		{"empty body", bash("apply_patch <<'EOF'\nEOF"), "", "", true, nil},

		{"raw patch", bash(body), "", "", false, ErrImplicit},
		{"raw patch as a program", []string{body}, "", "", false, ErrImplicit},
		{"raw patch in a bare heredoc", bash("<<'EOF'\n" + body + "EOF"), "", "", false, ErrImplicit},

		{"semicolon", bash("cd sub; apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"command before", bash("echo a && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"command after", bash("apply_patch <<'EOF'\n" + body + "EOF\necho done"), "", "", false, nil},
		{"and after", bash("apply_patch <<'EOF' && echo done\n" + body + "EOF\n"), "", "", false, nil},
		{"or", bash("apply_patch <<'EOF' || echo done\n" + body + "EOF\n"), "", "", false, nil},
		{"or after cd", bash("cd sub || apply_patch <<'EOF'\n" + body + "EOF\n"), "", "", false, nil},
		{"pipe", bash("apply_patch <<'EOF' | tee log\n" + body + "EOF\n"), "", "", false, nil},
		{"background", bash("apply_patch <<'EOF' &\n" + body + "EOF\n"), "", "", false, nil},
		{"negated", bash("! apply_patch <<'EOF'\n" + body + "EOF\n"), "", "", false, nil},
		{"subshell", bash("(apply_patch <<'EOF'\n" + body + "EOF\n)"), "", "", false, nil},
		{"extra argument", bash("apply_patch x <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"second redirection", bash("apply_patch <<'EOF' >log\n" + body + "EOF"), "", "", false, nil},
		{"quoted argument", bash("apply_patch '" + body + "'"), "", "", false, nil},
		{"variable before", bash("X=1 apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"two cd", bash("cd a && cd b && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"cd with an expansion", bash("cd $HOME && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"cd with an expansion in quotes", bash("cd \"$HOME/a\" && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"cd home", bash("cd ~/a && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"cd back", bash("cd - && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"cd with two words", bash("cd a b && apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"other program", bash("cat <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"only mentioned", bash("echo apply_patch"), "", "", false, nil},
		{"other shell", []string{"fish", "-c", "apply_patch <<'EOF'\n" + body + "EOF"}, "", "", false, nil},
		{"other flag", []string{"bash", "-x", "apply_patch <<'EOF'\n" + body + "EOF"}, "", "", false, nil},
		{"no end", bash("apply_patch <<'EOF'\n" + body), "", "", false, nil},
		{"no body", bash("apply_patch <<'EOF'"), "", "", false, nil},
		{"other descriptor", bash("apply_patch 3<<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"here string", bash("apply_patch <<<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"deeply nested", bash(strings.Repeat("(", 1<<20) + " apply_patch <<'EOF'\n" + body + "EOF"), "", "", false, nil},
		{"deeply nested behind it", bash("apply_patch <<'EOF'\n" + body + "EOF\n" + strings.Repeat("(", 1<<20)), "", "", false, nil},
		{"nothing", nil, "", "", false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, ok, err := Argv(tt.argv)
			if ok != tt.ok || !errors.Is(err, tt.err) {
				t.Fatalf("Argv = %+v, %v, %v; want ok %v, error %v", call, ok, err, tt.ok, tt.err)
			}
			if call.Patch != tt.patch || call.Dir != tt.dir {
				t.Errorf("Argv = %q in %q, want %q in %q", call.Patch, call.Dir, tt.patch, tt.dir)
			}
		})
	}
}

func TestExplainImplicit(t *testing.T) {
	want := `apply_patch verification failed: patch detected without explicit call to apply_patch. Rerun as ["apply_patch", "<patch>"]`
	if got := patch.Explain(ErrImplicit); got != want {
		t.Errorf("Explain = %q, want %q", got, want)
	}
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{
		"apply_patch <<'EOF'\n" + body + "EOF",
		"cd \"s p\" && applypatch <<PATCH\n" + body + "PATCH",
		"apply_patch <<EOF\n${x `y $(z\nEOF\n",
		"apply_patch <<-EOF\n\tx\n\tEOF",
		"cd sub; apply_patch <<'EOF'\nEOF",
		body,
		"apply_patch <<EOF",
		"apply_patch <<'E\nF'\nE\nF",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		call, ok, err := Argv([]string{"bash", "-lc", script})
		if err != nil && !errors.Is(err, ErrImplicit) {
			t.Errorf("unknown error %v", err)
		}
		if !ok && call != (Call{}) {
			t.Errorf("not intercepted, and yet %+v", call)
		}
	})
}
