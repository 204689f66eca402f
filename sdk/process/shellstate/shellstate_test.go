package shellstate_test

import (
	"testing"

	"github.com/gantry-agent/gantry/sdk/process/shellstate"
	"pgregory.net/rapid"
)

func TestCommandIsFoundAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, command := rapid.IntRange(1, 64).Draw(t, "n"), rapid.String().Draw(t, "command")
		for _, argv := range [][]string{
			{"/bin/bash", "-c", shellstate.Script(n, command)}, {"sh", "-lc", shellstate.Script(n, command)}, {"/bin/zsh", "-f", "-c", shellstate.ZshScript(n, command)},
		} {
			if got, ok := shellstate.Command(argv); !ok || got != command {
				t.Fatalf("%q: %q, %v", argv, got, ok)
			}
		}
	})
}

func TestOtherCommandLines(t *testing.T) {
	const begin = "eval \"unset GANTRY_SHELL_STATE_0\n$GANTRY_SHELL_STATE_0\""
	for _, argv := range [][]string{
		nil, {"bash"}, {"bash", "-c"}, {"bash", "-c", "ls"}, {"bash", "-c", begin}, {"bash", "-ic", begin + "\nls"}, {"bash", "-c", begin + "; ls"},
		{"bash", "-c", begin + "\nls", "more"}, {"bash", "-c", "ls; " + begin + "\nls"}, {"bash", "-c", "eval \"unset X\n$X\"\nls"},
		{"zsh", "-c", begin + "; true; eval 'a'; b'"}, {"zsh", "-c", begin + "; true; eval 'a"}, {"zsh", "-c", begin + "; true; eval '''"},
		{"bash", "-c", "eval \"unset GANTRY_SHELL_STATE_0\n$GANTRY_SHELL_STATE_1\"\nls"},
	} {
		if command, ok := shellstate.Command(argv); ok {
			t.Errorf("%q is taken for %q", argv, command)
		}
	}
}
