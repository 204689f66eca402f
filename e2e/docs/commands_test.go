package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// help is what a command says of itself.
type help struct {
	sub   []string
	takes bool            // arguments of its own, beside its subcommands
	flags map[string]bool // with dashes; whether it takes a value
}

// tree asks gantry for its commands, each once.
type tree struct {
	bin   string
	home  string
	mu    sync.Mutex
	known map[string]help
}

var (
	subCommand = regexp.MustCompile(`^  ([a-z][a-z-]*) `)
	flagLine   = regexp.MustCompile(`^ +(?:(-\w), )?(--[\w-]+)(?: (\S+))?(?: {2,}|$)`)
)

func (c *tree) help(t *testing.T, path []string) help {
	t.Helper()
	key := strings.Join(path, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if h, ok := c.known[key]; ok {
		return h
	}
	cmd := exec.Command(c.bin, append(slices.Clone(path), "--help")...)
	cmd.Env = append(os.Environ(), "GANTRY_HOME="+c.home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gantry %s --help: %v\n%s", key, err, out)
	}
	h := help{flags: map[string]bool{"--help": false, "-h": false}}
	section := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if line != "" && line[0] != ' ' {
			section = line
		}
		if section == "Usage:" && strings.HasSuffix(line, "]") && !strings.HasSuffix(line, "[command]") && !strings.HasSuffix(line, "[flags]") {
			h.takes = true
		}
		if m := subCommand.FindStringSubmatch(line); m != nil && strings.HasSuffix(section, "Commands:") {
			h.sub = append(h.sub, m[1])
		}
		if m := flagLine.FindStringSubmatch(line); m != nil && strings.HasSuffix(section, "lags:") {
			h.flags[m[2]] = m[3] != ""
			if m[1] != "" {
				h.flags[m[1]] = m[3] != ""
			}
		}
	}
	c.known[key] = h
	return h
}

// check says what is wrong with a command line, "" when nothing is.
func (c *tree) check(t *testing.T, words []string) string {
	t.Helper()
	var path []string
	for i := 0; i < len(words); i++ {
		h := c.help(t, path)
		name, _, hasValue := strings.Cut(words[i], "=")
		switch {
		case words[i] == "-" || words[i] == "--":
			return ""
		case len(path) == 0 && words[i] == "LABEL": // of a plugin, whose commands follow
			return ""
		case strings.HasPrefix(name, "-"):
			takes, ok := h.flags[name]
			if !ok {
				return "gantry " + strings.Join(path, " ") + " has no flag " + name
			}
			if takes && !hasValue {
				i++
			}
		case len(path) == 0 && words[i] == "browser": // a plugin that the configuration has
			path = append(path, words[i])
		case len(h.sub) > 0 && slices.Contains(h.sub, words[i]):
			path = append(path, words[i])
		case len(h.sub) > 0 && !h.takes:
			return "gantry " + strings.Join(path, " ") + " has no command " + words[i]
		}
	}
	return ""
}

var (
	separator  = regexp.MustCompile(`\|\|?|&&|;|\$\(|\n`)
	assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)
	quoted     = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// lines are the command lines of gantry in a text, as words behind the program's name.
func lines(text string) [][]string {
	var out [][]string
	text = quoted.ReplaceAllString(text, "QUOTED")
	for _, part := range separator.Split(text, -1) {
		part, _, _ = strings.Cut(part, " #")
		part, _, _ = strings.Cut(part, " <")
		part, _, _ = strings.Cut(part, " >")
		words := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(part), "$ "), ")"))
		for len(words) > 0 && assignment.MatchString(words[0]) {
			words = words[1:]
		}
		if len(words) > 1 && (words[0] == "gantry" || words[0] == "bin/gantry") {
			out = append(out, words[1:])
		}
	}
	return out
}

// Every command and flag that a document names is one that gantry has.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := &tree{bin: filepath.Join(rig.Bin(t), "gantry"), home: t.TempDir(), known: map[string]help{}}
	// Some commands are those of a plugin.
	if err := os.WriteFile(filepath.Join(c.home, "gantry.hcl"), []byte("plugin \"mcp\" {\n  source = \"builtin/mcp\"\n}\nplugin \"browser\" {\n  source = \"builtin/browser\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := c.help(t, nil); !slices.Contains(h.sub, "exec") || !h.flags["--profile"] || !h.flags["-c"] {
		t.Fatalf("gantry --help was not understood: %+v", h)
	}
	count := 0
	for _, p := range pages(t) {
		for _, text := range p.commands() {
			for _, words := range lines(text) {
				count++
				if wrong := c.check(t, words); wrong != "" {
					t.Errorf("%s: %s", p.name, wrong)
				}
			}
		}
	}
	if count < 40 {
		t.Errorf("only %d command lines were found; is the test still looking at the documents?", count)
	}
	for _, wrong := range []string{"gantry exce x", "gantry exec --jsno", "gantry threads lsit", "cat x | gantry nothing"} {
		if c.check(t, lines(wrong)[0]) == "" {
			t.Errorf("%q was found right", wrong)
		}
	}
}
