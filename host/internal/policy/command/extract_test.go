package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/config/shellsyntax"
)

// starts reports whether an extraction has a command that begins with the words, or may.
func starts(x Extraction, argv ...string) (yes, maybe bool) {
	for _, c := range x.Commands {
		y, m := begins(c, argv)
		yes, maybe = yes || y, maybe || m
	}
	return yes, maybe || len(x.Unresolved) > 0 || x.Err != nil
}

func begins(c Command, argv []string) (yes, maybe bool) {
	for i, a := range argv {
		switch {
		case i >= len(c):
			return false, false
		case !c[i].Fixed:
			return false, true
		case i == 0 && stem(c[i].Text) != a || i > 0 && c[i].Text != a:
			return false, false
		}
	}
	return true, false
}

// The forms of a forbidden command in the attack list. None may be considered harmless.
func TestExtractFindsWhatIsHidden(t *testing.T) {
	const sure, asks = "sure", "asks"
	for _, tc := range []struct{ script, want string }{
		{"factor  13", sure}, {"factor\t13", sure}, {"factor \\\n13", sure}, {"factor '13'", sure}, {`factor 1"3"`, sure},
		{"true && factor 13", sure}, {"true; factor 13", sure}, {"factor 13 | cat", sure}, {"cat | factor 13", sure}, {"true || factor 13", sure},
		{"/usr/bin/factor 13", sure}, {"./../../usr/bin/factor 13", sure},
		{`"factor" 13`, sure}, {`fact\or 13`, sure}, {`factor \13`, sure}, {"'fac'tor 13", sure}, {"$'fac\\x74or' 13", sure}, {`$"factor" 13`, sure},
		{"X=1 factor 13", sure}, {"env factor 13", sure}, {"env X=1 -i factor 13", sure}, {"env -u A -C /tmp factor 13", sure},
		{"command factor 13", sure}, {"command -p factor 13", sure}, {"exec factor 13", sure}, {"exec -a x factor 13", sure}, {"builtin factor 13", sure},
		{"nohup factor 13", sure}, {"timeout 5 factor 13", sure}, {"timeout -k 1 --signal KILL 5 factor 13", sure}, {"timeout --foreground 5 factor 13", sure},
		{"time factor 13", sure}, {"time -p factor 13", sure}, {"/usr/bin/time -v factor 13", sure}, {"! factor 13", sure},
		{"nice factor 13", sure}, {"nice -n 5 factor 13", sure}, {"nice -5 factor 13", sure}, {"sudo factor 13", sure}, {"sudo -u root -- factor 13", sure},
		{"sudo -u root X=1 factor 13", sure}, {"stdbuf -oL factor 13", sure}, {"setsid -w factor 13", sure}, {"busybox factor 13", sure},
		{"env -S 'factor 13'", sure}, {"env -Sfactor 13", sure}, {"env --split-string='factor' 13", sure}, {"env nice nohup factor 13", sure},
		{"ld-linux-x86-64.so.2 /usr/bin/factor 13", sure}, {"chroot / factor 13", sure}, {"flock f factor 13", sure}, {"flock f -c 'factor 13'", sure},
		{"su root -c 'factor 13'", sure}, {"script -qc 'factor 13' /dev/null", sure}, {"watch factor 13", sure}, {"strace -f -o t factor 13", sure},
		{"factor 13 > f", sure}, {"factor 13 2>&1", sure}, {"> f factor 13", sure}, {"factor 13 <<E\nx\nE", sure}, {"factor 13 <<< x", sure},
		{"factor 13 # c", sure}, {"# c\nfactor 13", sure},
		{"(factor 13)", sure}, {"{ factor 13; }", sure}, {"if factor 13; then :; fi", sure}, {"if true; then factor 13; fi", sure},
		{"for i in 1; do factor 13; done", sure}, {"while factor 13; do :; done", sure}, {"case x in x) factor 13;; esac", sure},
		{"f() { factor 13; }; f", sure}, {"true & factor 13", sure}, {"factor 13 &", sure}, {"coproc factor 13", sure}, {"until factor 13; do :; done", sure},
		{"echo $(factor 13)", sure}, {"echo `factor 13`", sure}, {`echo "a $(factor 13) b"`, sure}, {"x=$(factor 13)", sure}, {"cat <(factor 13)", sure},
		{"a=([0]=$(factor 13))", sure}, {"echo ${x:-$(factor 13)}", sure}, {"cat <<E\n$(factor 13)\nE", sure}, {"export A=$(factor 13)", sure},
		{"[[ -n $(factor 13) ]]", sure}, {"echo $(( $(factor 13) ))", sure}, {"> $(factor 13)", sure}, {"for i in $(factor 13); do :; done", sure},
		{"factor $((10+3))", asks}, {"factor {13,}", sure}, {"{factor,13}", sure}, {"x=factor; $x 13", asks}, {"factor $x", asks}, {`factor "$@"`, asks},
		{"f() { factor \"$@\"; }; f 13", asks}, {"fact?r 13", asks}, {"fac[t]or 13", asks}, {`fac["t"]or 13`, asks}, {"fact{o,'o'}r 13", asks},
		{"$(echo factor) 13", asks}, {"`echo factor` 13", asks}, {"~/factor 13", asks}, {"=factor 13", asks}, {"${0##x}factor 13", asks},
		{"eval factor 13", sure}, {"eval 'factor 13'", sure}, {`eval "$x"`, asks}, {"bash -c 'factor 13'", sure}, {"sh -c 'factor 13'", sure},
		{"bash -ec 'factor 13'", sure}, {"bash -o pipefail -c 'factor 13'", sure}, {"bash --norc -c 'factor 13' x", sure}, {"bash +x -c -- 'factor 13'", sure},
		{"bash -c \"$x\"", asks}, {"bash -c $x", asks}, {"bash $x", asks}, {"/bin/sh -c 'factor 13'", sure}, {"bash -c 'bash -c \"factor 13\"'", sure},
		{"bash -c '$0 13' factor", asks}, {"xargs factor < f", asks}, {"echo 13 | xargs factor", asks}, {"xargs -n 1 factor 13", sure},
		{"xargs -I{} sh -c 'factor 13'", sure}, {"find . -exec factor 13 \\;", sure}, {"find . -name x -execdir factor {} +", asks}, {"fd x -x factor 13", sure},
		{"sh <<'E'\nfactor 13\nE", sure}, {"sh <<E\nfactor 13\nE", sure}, {"sh <<E\nfactor $x\nE", asks}, {"bash <<< 'factor 13'", sure},
		{"bash -s <<'E'\nfactor 13\nE", sure}, {"echo factor 13 | sh", asks}, {"bash", asks}, {"sh < f", asks}, {"fish -c 'factor 13'", asks},
		{"trap 'factor 13' EXIT", sure}, {"trap -- 'factor 13' EXIT", sure}, {"alias f=factor; f 13", asks}, {"alias f='factor 13'", sure},
		{"alias $x", asks}, {"sudo --unheard-of x factor 13", sure}, {"env -Z x factor 13", sure}, {"parallel factor 13 ::: x", sure}, {"parallel 'factor {}' ::: 13", asks},
		{"if then factor 13", asks}, {"factor 13\nif then", sure}, {"factor 13 'unclosed", asks}, {strings.Repeat(" ", shellsyntax.MaxBytes+1) + "factor 13", asks},
		{nested(maxDepth+2, "factor 13"), asks},
	} {
		yes, maybe := starts(Extract([]string{"bash", "-lc", tc.script}), "factor", "13")
		if tc.want == sure && !yes || tc.want == asks && !yes && !maybe {
			t.Errorf("%.60q: found %v, asks %v, want %s", tc.script, yes, maybe, tc.want)
		}
	}
}

// nested is a command nested in a number of shells.
func nested(n int, script string) string {
	for range n {
		script = Join([]string{"bash", "-c", script})
	}
	return script
}

// Lines that only look similar are not affected.
func TestExtractLeavesOthersAlone(t *testing.T) {
	for _, script := range []string{
		"echo factor 13", "echo 'factor 13'", "factor 14", "factors 13", "timeout 5 echo factor 13", "env X=factor echo 13", "command -v factor 13",
		"git log --grep 'factor 13'", "cat <<'E'\nfactor 13\n$(factor 13)\nE", "trap - EXIT", "bash script.sh factor 13", "find . -name factor 13",
		"sudo -u factor echo 13", "# factor 13\ntrue", "xargs -n 1 echo", `[ "$x" = factor ]`, "bash --version", "nice -n factor true", "printf 'factor 13' > f",
		"python3 -c 'factor 13'", "test -f factor 13", "for f in factor 13; do echo $f; done", "time", "exec > f", "export X=factor",
	} {
		x := Extract([]string{"bash", "-lc", script})
		if yes, maybe := starts(x, "factor", "13"); yes || maybe {
			t.Errorf("%q: found %v, asks %v: %+v", script, yes, maybe, x)
		}
	}
}

func TestDangerous(t *testing.T) {
	for _, tc := range []struct {
		script string
		want   bool
	}{
		{"rm -rf /", true}, {"rm -f x", true}, {"/bin/rm -fr x", true}, {"rm -r -f x", true}, {"rm --force x", true}, {"rm x -f", true},
		{"sudo rm -rf x", true}, {"env T=x rm -rf x", true},
		{"printf x | rm -rf p", true}, {"if test -d p; then rm --force p; fi", true}, {`rm -rf "$T" >/dev/null`, true},
		{`for t in a b; do rm -r -f "$t"; done`, true}, {`echo "$(rm -rf p)"`, true}, {"bash -c 'rm -rf p'", true}, {"trap 'rm -rf p' EXIT", true},
		{"rm -r x", false}, {"rm -- -f", false}, {"env T=x rm -r x", false}, {"echo 'rm -rf p'", false}, {"cmd=rm; $cmd -rf p", false},
		{"if then rm -rf p", false}, {"trap 'echo rm -rf p' EXIT", false},
		{`r\m -f x`, true}, {"busybox rm -f x", true}, {"rm --for x", true}, {"rm -rf p\nif then", true}, {"xargs rm -f", true}, {"find . -exec rm -f {} +", true},
		{"find . -delete", true}, {"git clean -fdx", true}, {"git -C a clean -d --force", true}, {"git clean -nf", false}, {"git clean -n", false},
		{"git reset --hard HEAD", true}, {"git reset HEAD", false}, {"git commit -m 'reset --hard'", false}, {"shred f", true}, {"find . -name '-delete'", true},
		{"git", false}, {"git $x --hard", false},
	} {
		if c, why := Extract([]string{"bash", "-lc", tc.script}).Dangerous(); (why != "") != tc.want {
			t.Errorf("%q: %q, %q, want dangerous %v", tc.script, c.Argv(), why, tc.want)
		}
	}
	if _, why := Extract([]string{"rm", "-rf", "x"}).Dangerous(); why != ForcedRemoval {
		t.Errorf("without a shell: %q", why)
	}
}

func TestSafe(t *testing.T) {
	sh := func(script string) []string { return []string{"bash", "-lc", script} }
	for _, tc := range []struct {
		want  bool
		argvs [][]string
	}{
		{true, [][]string{
			{"ls"}, {"git", "status"}, {"git", "branch"}, {"git", "branch", "--show-current"}, {"base64"}, {"sed", "-n", "1,5p", "f"}, {"nl", "-nrz", "f"},
			{"find", ".", "-name", "f"}, {"rg", "x", "-n"}, {"git", "log", "-p", "-1"}, {"git", "diff", "-p"}, {"git", "show", "-p", "HEAD"}, {"/usr/bin/cat", "f"},
			sh("ls | wc"), sh("echo 'hi' ; ls"), sh(`grep -R "x" -n || true`), {"zsh", "-lc", "ls"}, sh("sed -n '1,5p' f"), sh("ls *.go"), {"uniq", "-c", "f"},
		}},
		{false, [][]string{
			{"foo"}, {"git", "fetch"}, {"git", "checkout", "status"}, {"cargo", "check"}, {"sed", "-n", "xp", "f"}, {"git", "branch", "-d", "x"},
			{"git", "branch", "new"}, {"git", "-C", ".", "status"}, {"git", "-C.", "status"}, {"git", "-c", "core.pager=cat", "log"},
			{"git", "-ccore.pager=cat", "status"}, {"git", "--config-env=a=b", "show"}, {"git", "--git-dir", "x", "diff"}, {"git", "--git-dir=x", "diff"},
			{"git", "--work-tree", ".", "status"}, {"git", "--work-tree=.", "status"}, {"git", "--exec-path", "x", "show"}, {"git", "--exec-path=x", "show"},
			{"git", "--namespace", "x", "show"}, {"git", "--namespace=x", "show"}, {"git", "--super-prefix", "x", "show"}, {"git", "--super-prefix=x", "show"},
			{"git", "-p", "log"}, {"git", "--paginate", "log"}, {"git", "log", "--output=/tmp/x"}, {"git", "diff", "--output", "/tmp/x"},
			{"git", "diff", "--ext-diff"}, {"git", "show", "--textconv"}, {"git", "log", "--outpu=/tmp/x"},
			{"find", ".", "-exec", "x"}, {"find", "-execdir"}, {"find", "-ok"}, {"find", "-okdir"}, {"find", "-delete"}, {"find", "-fls", "x"},
			{"find", "-fprint", "x"}, {"find", "-fprint0", "x"}, {"find", "-fprintf", "x"},
			{"base64", "-o", "x"}, {"base64", "--output", "x"}, {"base64", "--output=x"}, {"base64", "-ox"}, {"base64", "--outp=x"},
			{"rg", "-z", "f"}, {"rg", "--search-zip"}, {"rg", "--pre", "x"}, {"rg", "--pre=x"}, {"rg", "--hostname-bin", "x"}, {"rg", "--hostname-bin=x"},
			{"bash", "-lc", "git", "status"}, sh("'git status'"), sh("(ls)"), sh("ls > o"), sh("ls && rm -rf /"),
			// The name of a program is not enough, and words are compared as the program gets them.
			{"./ls"}, {"/tmp/x/cat"}, {"rg", "-nz", "f"}, sh(`rg \--pre x f`), sh("find *"), {"./bash", "-c", "ls"}, {"uniq", "a", "b"}, sh("find ~"), nil,
		}},
	} {
		for _, argv := range tc.argvs {
			if got := len(argv) > 0 && Safe(argv); got != tc.want {
				t.Errorf("Safe(%q) = %v", argv, got)
			}
		}
	}
}

// The analysis of any nested script ends.
func TestDeepNesting(t *testing.T) {
	for i, unit := range []string{
		"(", "{ ", "$(", "`", "\"$(", "if ", "while ", "! ", "a && ", "a | ", "a;", "${a:-", "$((", "<(", "case x in x) ", "f() ", "time ", "[[ ( ", "a=(", "eval ",
		"((", "$[", "${a:", "a[", "((a?", "((a?b:", "((-", "((a=", "((a**", "?", "let a=", "[[ ! ", "$((a?b:", "@(", "{a,", "\\(", "<<", "\"${a:-",
	} {
		if testing.Short() && i%4 != 0 {
			continue
		}
		script := strings.Repeat(unit, shellsyntax.MaxBytes/len(unit))
		for _, script := range []string{script, script[:min(len(script), shellsyntax.MaxOpenings/2*len(unit))]} {
			Extract([]string{"bash", "-c", script})
			Extract([]string{"zsh", "-c", "((" + script})
			Plain(script)
		}
	}
	closed := strings.Repeat("$(", 3000) + "factor 13" + strings.Repeat(")", 3000)
	if yes, maybe := starts(Extract([]string{"bash", "-c", "echo " + closed}), "factor", "13"); !yes && !maybe {
		t.Error("a deeply nested command is not seen")
	}
}

// For any script, the analysis ends, the broad analysis has all commands of the strict one, and a plain script hides nothing.
func FuzzScripts(f *testing.F) {
	for _, s := range []string{
		"ls -1", "a && b || c; d | e", `echo "x"'y'\z`, "cat <<E\nx $(y)\nE", "for i in {1..3}; do rm -f $i; done", "f() { eval \"$@\"; }", "env -S 'a b' c",
		"timeout 5 sudo -u x bash -c 'y'", "find . -exec a {} +", "a <(b) >(c)", "case x in a|b) c;; esac", "x=1 y=$(z) w", "[ -f x ]", "((1+2))", "a[1]=2",
		"coproc x { y; }", "trap 'a' EXIT", "$'\\x41'", "time -p a", "~a {b,c}*", "alias a=b", "xargs -I{} a {}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		argv := []string{"bash", "-lc", script}
		wide, strict := Extract(argv), Lower(argv)
		if !strict.Plain {
			return
		}
		if wide.Err != nil { // what eval or another shell gets may be broken
			return
		}
		for _, c := range strict.Commands {
			if !slices.ContainsFunc(wide.Commands, func(w Command) bool { return slices.Equal(w, c) }) {
				t.Errorf("only the strict reading has %q", c.Argv())
			}
		}
		if Safe(argv) {
			if c, why := wide.Dangerous(); why != "" {
				t.Errorf("safe and dangerous: %q, %s", c.Argv(), why)
			}
		}
		_ = fmt.Sprint(Canonical(argv))
	})
}

// Joined words can be split again.
func FuzzJoin(f *testing.F) {
	f.Add("a b", "c'd", "$e")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		argv := []string{a, b, c}
		if strings.ContainsAny(a+b+c, "\x00") || strings.ToValidUTF8(a+b+c, "") != a+b+c {
			_ = Join(argv) // for people only
			return
		}
		got, ok := Split(Join(argv))
		if !ok || !slices.Equal(got, argv) {
			t.Errorf("Split(%q) = %q, %v, want %q", Join(argv), got, ok, argv)
		}
	})
}

// Lines with tens of thousands of words and nested starters, each of which can be interpreted in several ways.
func TestFollowingIsBounded(t *testing.T) {
	for _, unit := range []string{
		"find -exec ", "fd -x ", "sudo -X ", "xargs --foo ", "env -S ", "eval ", "watch ", "a|", "a;", "a&&", "parallel ", "timeout 5 ", "x ", "'x' ", "sh -c ", "alias a=",
	} {
		x := Extract([]string{"bash", "-c", strings.Repeat(unit, (shellsyntax.MaxBytes-1)/len(unit))})
		words := 0
		for _, c := range x.Commands {
			words += len(c)
		}
		if len(x.Commands) > maxCommands || words > maxWords {
			t.Errorf("%q is read as %d commands with %d words", unit, len(x.Commands), words)
		}
	}
	for _, unit := range []string{"find -exec ", "a|"} {
		if x := Extract([]string{"bash", "-c", strings.Repeat(unit, 10_400) + "x"}); x.Err == nil {
			t.Errorf("%q is said to be read", unit)
		}
	}
	// Nested words are neither parsed nor printed again on each level, which took from 5 to 97 s.
	for _, nested := range [][2]string{{"let a=$(", ")"}, {"a[$(", ")]=1"}, {"export a[$(", ")]=1"}, {"$(($(", ")))"}, {"<(", ")"}} {
		const levels = 1300
		start := time.Now()
		Extract([]string{"bash", "-c", strings.Repeat(nested[0], levels) + "1" + strings.Repeat(nested[1], levels)})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q took %v", nested[0], took)
		}
	}
}
