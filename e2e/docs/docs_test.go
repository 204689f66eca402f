// Package docs_test holds what the documents say to what is there: paths, targets, commands, settings, links, snippets.
//
// It owns: the meaning of a code block's info string, and the comparison of a document with the repository, the Makefile
// and the binaries. It must not know: what a document is about.
//
// Start with pages and the tests in this file, and run them with -count=1: Go's cache of results does not see files beyond
// the module. The first word of an info string is the language, the others say what is done with the block:
//
//	sh                 paths, targets and commands in it exist
//	sh run             it is also run, in a copy of the repository, after the page's earlier blocks
//	text shown         the "sh run" block before it prints this; … stands for anything
//	text demo          scripts/demo prints this
//	text               nothing
//	hcl                a complete gantry.hcl
//	hcl fragment       a part of one
//	hcl lock           a lock file
//	go build           a program that builds against sdk
//	go file=PATH       a part of that file
//	json               JSON, or each line is
//	go client          a client of the app server, which a test in e2e runs; also in python and typescript
//	python viewer      a client that watches a session, which a test in e2e runs
//	toml, proto, starlark, typescript   nothing
//	… file=PATH        any language: written to that file before the page's next block is run
package docs_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/schema"
)

// root is the root of the repository, seen from here.
const root = "../.."

var update = flag.Bool("update", false, "write the generated part of docs/guides/configuration.md anew")

func TestPaths(t *testing.T) {
	t.Parallel()
	top := topLevel(t)
	count := 0
	for _, p := range pages(t) {
		texts := slices.Clone(p.spans)
		for _, b := range p.blocks {
			if b.words()[0] == "sh" {
				texts = append(texts, b.text)
			}
		}
		for _, text := range texts {
			for _, word := range strings.Fields(text) {
				path := repositoryPath(word, top)
				if path == "" {
					continue
				}
				count++
				found, err := filepath.Glob(filepath.Join(root, path))
				if err != nil || len(found) == 0 && !placeholder.MatchString(path) {
					t.Errorf("%s: %s does not exist", p.name, path)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d paths were found; is the test still looking at the documents?", count)
	}
}

// placeholder is a part of a path that the reader replaces.
var placeholder = regexp.MustCompile(`(^|[/_.-])[A-Z]{3,}([/_.-]|$)`)

// topLevel is what lies in the root.
func topLevel(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if name := e.Name(); name != ".git" && name != ".cache" && name != "bin" {
			out = append(out, name)
		}
	}
	return out
}

// repositoryPath is the path of this repository that a word stands for, "" when it stands for none.
func repositoryPath(word string, top []string) string {
	path := strings.TrimSuffix(strings.TrimPrefix(strings.Trim(word, `"'();,:`), "./"), "/...")
	if wireMethod.MatchString(path) {
		return ""
	}
	first, rest, inside := strings.Cut(path, "/")
	if !slices.Contains(top, first) || inside && strings.ContainsAny(rest, "={}<>$") {
		return ""
	}
	// One word alone is a path only where it could hardly be anything else.
	if !inside && !strings.ContainsAny(first, ".") && first != "Makefile" {
		return ""
	}
	return path
}

// wireMethod matches methods of the app server whose names begin like a folder.
var wireMethod = regexp.MustCompile(`^config/(read|value/write|batchWrite|mcpServer/reload)$`)

// Tests that a document names exist.
func TestTestsExist(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	wanted := map[string][]string{}
	for _, p := range pages(t) {
		for _, s := range p.spans {
			if name.MatchString(s) {
				wanted[s] = append(wanted[s], p.name)
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for w := range wanted {
			if strings.Contains(string(b), "func "+w+"(") {
				delete(wanted, w)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for w, where := range wanted {
		t.Errorf("%s: there is no %s", strings.Join(where, ", "), w)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	all := pages(t)
	linked := map[string]bool{"README.md": true}
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.prose, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := p.name
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), target))
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.name, m[1])
				continue
			}
			linked[path] = linked[path] || path != p.name
			linked[path+"/README.md"] = true // what a folder shows
			if fragment != "" && !slices.Contains(read(t, path).headings, fragment) {
				t.Errorf("%s: %s has no heading %q", p.name, path, fragment)
			}
		}
	}
	for _, p := range all {
		if !linked[p.name] {
			t.Errorf("no document links %s", p.name)
		}
	}
}

func TestMakeTargets(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	use := regexp.MustCompile(`(?m)(?:^|[;&|(] *|^\$ )make ([a-z][a-z-]*)`)
	count := 0
	for _, p := range pages(t) {
		for _, text := range p.commands() {
			for _, m := range use.FindAllStringSubmatch(text, -1) {
				count++
				if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
					t.Errorf("%s: there is no target %q", p.name, m[1])
				}
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d targets were found; is the test still looking at the documents?", count)
	}
}

// commands are the texts in which command lines can stand.
func (p page) commands() []string {
	out := slices.Clone(p.spans)
	for _, b := range p.blocks {
		if b.words()[0] == "sh" {
			out = append(out, strings.ReplaceAll(b.text, "\\\n", " "))
		}
	}
	return out
}

const reference = "docs/guides/configuration.md"

// The settings in the guide are those of the schema.
func TestSettingsAreCurrent(t *testing.T) {
	t.Parallel()
	const begin = "<!-- Below this line: go test ./e2e/docs -run TestSettingsAreCurrent -update -->\n"
	path := filepath.Join(root, reference)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, generated, ok := strings.Cut(string(b), begin)
	if !ok {
		t.Fatalf("%s has no line %q", reference, begin)
	}
	// It is a section of the guide: every heading goes one level down.
	want := "\n" + regexp.MustCompile(`(?m)^#`).ReplaceAllString(strings.TrimRight(schema.Markdown(), "\n")+"\n", "##")
	if *update {
		if err := os.WriteFile(path, []byte(written+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if generated != want {
		t.Errorf("the settings in %s are not those of config/schema; run go test ./e2e/docs -run TestSettingsAreCurrent -update", reference)
	}
}

// What README says of the defaults is what holds without any file.
func TestDefaults(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cfg, ds := config.Load(context.Background(), config.Options{Home: home, Dir: home, System: "-"})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	text := strings.Join(strings.Fields(read(t, "README.md").text), " ")
	for _, claim := range []string{
		"(the policy `" + cfg.Approval.Policy + "`)",
		"Under `" + cfg.Sandbox.Mode + "`, the default",
	} {
		if !strings.Contains(text, claim) {
			t.Errorf("README.md does not say %q", claim)
		}
	}
}

// Decisions are numbered without gaps, have one form, and are all listed.
func TestDecisions(t *testing.T) {
	t.Parallel()
	parts := []string{"status", "context", "decision", "rejected", "consequences", "would-change-our-mind"}
	list := read(t, "docs/decisions/README.md")
	number := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/decisions/0") {
			continue
		}
		number++
		base := filepath.Base(p.name)
		if want := fmt.Sprintf("%04d", number); !strings.HasPrefix(base, want+"-") {
			t.Errorf("%s: the number should be %s", p.name, want)
		}
		if len(p.headings) == 0 || !slices.Equal(p.headings[1:], parts) {
			t.Errorf("%s: the parts are %q, want %q", p.name, p.headings, parts)
		}
		if !strings.Contains(list.text, "]("+base+")") {
			t.Errorf("%s does not list %s", list.name, base)
		}
	}
	if number == 0 {
		t.Error("no decisions were found")
	}
}

// Messages that the guide explains are ones that gantry has: what stands between the words in capitals is in its source.
func TestMessagesExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, dir := range []string{"config", "host", "providers", "sdk", "scripts", "e2e/rig"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			code := filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") || dir == "scripts" ||
				filepath.Ext(path) == ".txtar" // with the words of the HCL library
			if err != nil || e.IsDir() || !code {
				return err
			}
			b, err := os.ReadFile(path)
			source.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A message that is too long for its line stands in two literals; verbs are some value.
	text := regexp.MustCompile(`" \+\s*"`).ReplaceAllString(source.String(), "")
	text = regexp.MustCompile(`\\"|"|'|`+"`").ReplaceAllString(text, "")
	row := regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	values := regexp.MustCompile(`\b[A-Z]{2,}\b|\d+\.\d+`)
	count := 0
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/guides/troubleshooting.md").text, -1) {
		for _, span := range codeSpan.FindAllStringSubmatch(m[1], -1) {
			for _, piece := range values.Split(regexp.MustCompile(`["']`).ReplaceAllString(span[1], ""), -1) {
				if piece = strings.TrimSpace(piece); len(piece) < 8 {
					continue
				}
				count++
				if !strings.Contains(text, piece) {
					t.Errorf("no message says %q (of %s)", piece, span[0])
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d messages were found; is the test still looking at the guide?", count)
	}
}
