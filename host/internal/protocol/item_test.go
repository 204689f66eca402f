package protocol

import (
	"slices"
	"testing"

	"mvdan.cc/sh/v3/shell"
)

func TestCommandLine(t *testing.T) {
	for _, tc := range []struct {
		argv         []string
		line, script string
	}{
		{[]string{"/bin/bash", "-lc", "echo one; sleep 0.2; echo two"}, "/bin/bash -lc 'echo one; sleep 0.2; echo two'", "echo one; sleep 0.2; echo two"},
		{[]string{"/bin/bash", "-lc", "ls"}, "/bin/bash -lc ls", "ls"},
		{[]string{"/bin/sh", "-c", "echo 'a'\nb"}, "/bin/sh -c 'echo '\\''a'\\''\nb'", "echo 'a'\nb"},
		{[]string{"/bin/bash", "-lc", ""}, "/bin/bash -lc ''", ""},
		{[]string{"git", "log", "a b"}, "git log 'a b'", "git log 'a b'"},
		{[]string{"/bin/bash", "-lc", "ls", "more"}, "/bin/bash -lc ls more", "/bin/bash -lc ls more"},
		{[]string{"make"}, "make", "make"},
	} {
		line := CommandLine(tc.argv)
		if line != tc.line {
			t.Errorf("%q: %s, want %s", tc.argv, line, tc.line)
		}
		if got := (CommandExecutionItem{Command: line}).Script(); got != tc.script {
			t.Errorf("%s: script %q, want %q", line, got, tc.script)
		}
	}
	for _, text := range []string{"", "make; echo done", "bash -lc 'ls", `bash -lc "ls"`, "bash -lc ls ", "bash  -lc ls", "bash -lc ls;rm"} {
		if got := (CommandExecutionItem{Command: text}).Script(); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Another reader of shell text reads the same arguments from a line, and Script the script.
func FuzzCommandLine(f *testing.F) {
	f.Add("/bin/bash", "-lc", "echo 'a' \\ $b")
	f.Add("a b", "-c", "")
	f.Fuzz(func(t *testing.T, program, flag, text string) {
		argv := []string{program, flag, text}
		line := CommandLine(argv)
		got := (CommandExecutionItem{Command: line}).Script()
		if want := text; (flag == "-c" || flag == "-lc") && got != want || flag != "-c" && flag != "-lc" && got != line {
			t.Errorf("%q: script %q", argv, got)
		}
		for _, a := range argv {
			for _, r := range a {
				if r == 0 || r == '\r' || r == 0xfffd { // the other reader changes them
					return
				}
			}
		}
		words, err := shell.Fields(line, nil)
		if err != nil || !slices.Equal(words, argv) {
			t.Errorf("%s is read as %q, %v", line, words, err)
		}
	})
}
