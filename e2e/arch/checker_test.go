package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// workspace returns a workspace of the given files. Each file needs at least a package clause.
func workspace(t *testing.T, files map[string]string) *Workspace {
	t.Helper()
	w := New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.Add(name, files[name]); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// expect compares problems with what they must contain, in order.
func expect(t *testing.T, got []Problem, want ...string) {
	t.Helper()
	for i, p := range got {
		if p.Instead == "" {
			t.Errorf("no advice in: %s", p)
		}
		if i >= len(want) {
			t.Errorf("not expected: %s", p)
		} else if !strings.Contains(p.String(), want[i]) {
			t.Errorf("got: %s\nwant: %s", p, want[i])
		}
	}
	for _, w := range want[min(len(got), len(want)):] {
		t.Errorf("not found: %s", w)
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	rule := func(l Rule) []Rule {
		l.Reason, l.Instead = "because", "something else"
		return []Rule{l}
	}
	const sdk = "github.com/gantry-agent/gantry/sdk/llm"
	for _, tc := range []struct {
		name    string
		files   map[string]string
		outside map[string][]string
		rule    Rule
		want    []string
	}{
		{
			name: "directly",
			files: map[string]string{
				"plugins/a/a.go": "package a\nimport _ \"github.com/gantry-agent/gantry/host/x\"", "host/x/x.go": "package x",
			},
			rule: Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}}, want: []string{"plugins/a → host/x: because"},
		},
		{
			name: "over others, also outside",
			files: map[string]string{
				"plugins/a/a.go": "package a\nimport _ \"" + sdk + "\"", "sdk/llm/l.go": "package llm\nimport _ \"example.com/one\"",
			},
			outside: map[string][]string{"example.com/one": {"example.com/two"}, "example.com/two": nil},
			rule:    Rule{From: []string{"plugins/..."}, Not: []string{"example.com/two"}},
			want:    []string{"plugins/a → sdk/llm → example.com/one → example.com/two"},
		},
		{
			name:  "a neighbour whose name begins the same is free",
			files: map[string]string{"plugins/a/a.go": "package a\nimport _ \"github.com/gantry-agent/gantry/hostile\"", "hostile/x.go": "package hostile", "host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}},
		},
		{
			name:  "tests are free where the rule does not say so",
			files: map[string]string{"plugins/a/a_test.go": "package a\nimport _ \"github.com/gantry-agent/gantry/host\"", "host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}},
		},
		{
			name:  "tests count where it does",
			files: map[string]string{"plugins/a/a_test.go": "package a\nimport _ \"github.com/gantry-agent/gantry/host\"", "host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}, Tests: true}, want: []string{"plugins/a → host"},
		},
		{
			name:  "files of other platforms count",
			files: map[string]string{"plugins/a/a_plan9.go": "//go:build plan9\n\npackage a\nimport _ \"github.com/gantry-agent/gantry/host\"", "host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}}, want: []string{"plugins/a → host"},
		},
		{
			name:  "exceptions",
			files: map[string]string{"plugins/a/a.go": "package a\nimport _ \"github.com/gantry-agent/gantry/host\"", "host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Except: []string{"plugins/a"}, Not: []string{"host"}},
		},
		{
			name:  "a forbidden package that is gone",
			files: map[string]string{"plugins/a/a.go": "package a"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host/..."}}, want: []string{"name host/..., which does not exist"},
		},
		{
			name:  "a rule for nobody",
			files: map[string]string{"host/x.go": "package host"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"host"}}, want: []string{"name plugins/..., which does not exist"},
		},
		{
			name:  "what nobody has can't be checked for existence",
			files: map[string]string{"plugins/a/a.go": "package a"},
			rule:  Rule{From: []string{"plugins/..."}, Not: []string{"example.com/vendor"}, Nobody: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := workspace(t, tc.files)
			maps.Copy(w.outside, tc.outside)
			expect(t, w.reach(rule(tc.rule)), tc.want...)
		})
	}
}

func TestReservations(t *testing.T) {
	t.Parallel()
	w := workspace(t, map[string]string{
		"store/s.go": "package s\nimport _ \"example.com/db\"",
		"turn/t.go":  "package t\nimport _ \"example.com/db\"", "turn/t_test.go": "package t\nimport _ \"example.com/db\"",
		"free/f_test.go": "package f\nimport _ \"example.com/db\"",
	})
	w.outside["example.com/db"] = nil
	expect(t, w.only([]Reservation{{Package: "example.com/db", By: []string{"store/..."}, Reason: "one package", Instead: "ask it"}}),
		"turn/t.go: imports example.com/db: one package")
	expect(t, w.only([]Reservation{{Package: "example.com/none", By: []string{"gone"}, Instead: "-"}}),
		"name example.com/none", "name gone")
}

func TestFrontEnds(t *testing.T) {
	t.Parallel()
	imp := func(paths ...string) (out string) {
		for _, p := range paths {
			out += "\nimport _ \"github.com/gantry-agent/gantry/host/internal/" + p + "\""
		}
		return out
	}
	w := workspace(t, map[string]string{
		"host/internal/hub/h.go": "package hub" + imp("store"), "host/internal/store/s.go": "package store", "host/internal/picture/p.go": "package picture",
		"host/internal/door/d.go":      "package door" + imp("hub", "store", "door/in"),
		"host/internal/door/d_test.go": "package door" + imp("picture"),
		"host/internal/door/in/i.go":   "package in" + imp("picture"),
		"host/internal/other/o.go":     "package other" + imp("store"),
	})
	door := FrontEnd{Packages: []string{"host/internal/door/..."}, Own: []string{"host/internal/door/..."}}
	expect(t, w.frontEnds([]string{"host/internal/hub"}, []FrontEnd{door}), "door/d.go: imports host/internal/store", "in/i.go: imports host/internal/picture")
	door.Also = []Edge{{"", "host/internal/store", "because"}, {"host/internal/door/in", "host/internal/picture", "because"}, {"", "host/internal/other", "because"}}
	expect(t, w.frontEnds([]string{"host/internal/hub"}, []FrontEnd{door}), "lists host/internal/other for host/internal/door/..., which nobody uses")
	expect(t, w.frontEnds(nil, []FrontEnd{{Packages: []string{"host/internal/gone"}}}), "name host/internal/gone, which does not exist")
}

func TestTestPackages(t *testing.T) {
	t.Parallel()
	const imp = "\nimport _ \"github.com/gantry-agent/gantry/a/storetest\""
	w := workspace(t, map[string]string{
		"a/storetest/s.go": "package storetest", "a/a.go": "package a" + imp, "a/a_test.go": "package a" + imp, "b/b_test.go": "package b" + imp,
		"c/turntest/t.go": "package turntest" + imp, "d/d.go": "package d\nimport _ \"testing/iotest\"",
	})
	expect(t, w.testOnly(), "a/a.go: shipped code imports a/storetest")
}

func TestLayers(t *testing.T) {
	t.Parallel()
	const imp = "\nimport _ \"github.com/gantry-agent/gantry/host/internal/"
	rows := [][]string{{"top"}, {"left", "right"}, {"ground"}}
	base := map[string]string{
		"host/internal/top/t.go": "package top", "host/internal/left/l.go": "package left",
		"host/internal/right/r.go": "package right", "host/internal/ground/g.go": "package ground",
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		edges []Edge
		want  []string
	}{
		{name: "downwards", files: map[string]string{"host/internal/top/t.go": "package top" + imp + "left\"" + imp + "ground\""}},
		{name: "upwards", files: map[string]string{"host/internal/ground/g.go": "package ground" + imp + "top\""}, want: []string{"ground imports top"}},
		{name: "sideways", files: map[string]string{"host/internal/left/l.go": "package left" + imp + "right\""}, want: []string{"left imports right"}},
		{
			name: "sideways along an edge", files: map[string]string{"host/internal/left/l.go": "package left" + imp + "right\""},
			edges: []Edge{{"left", "right", "needed"}},
		},
		{name: "an edge that nobody uses", edges: []Edge{{"left", "right", "needed"}}, want: []string{"left → right, which nobody uses"}},
		{name: "tests are free", files: map[string]string{"host/internal/ground/g_test.go": "package ground" + imp + "top\""}},
		{name: "a new package", files: map[string]string{"host/internal/new/n.go": "package new"}, want: []string{"is in no row"}},
		{
			name: "a package's own folder",
			files: map[string]string{
				"host/internal/ground/own/o.go": "package own", "host/internal/ground/g.go": "package ground" + imp + "ground/own\"",
				"host/internal/top/t.go": "package top" + imp + "ground/own\"",
			},
			want: []string{"top/t.go: imports host/internal/ground/own"},
		},
		{
			name:  "a package's own folder reaches up",
			files: map[string]string{"host/internal/ground/own/o.go": "package own" + imp + "left\""}, want: []string{"ground imports left"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			files := maps.Clone(base)
			maps.Copy(files, tc.files)
			expect(t, workspace(t, files).layers(rows, tc.edges), tc.want...)
		})
	}
	t.Run("a package that is gone", func(t *testing.T) {
		t.Parallel()
		expect(t, workspace(t, map[string]string{"host/internal/a/a.go": "package a"}).layers([][]string{{"a"}, {"b"}}, nil), "name host/internal/b")
	})
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	w := workspace(t, map[string]string{
		"a/types.go": "package a", "a/utils_test.go": "package a", "a/manager.go": "package a", "a/common.go": "package a",
		"a/helpers.go": "package a", "a/typeset.go": "package a", "plugins/shell/internal/helper/helper.go": "package helper",
		"z/utils/time.go": "package utils",
	})
	expect(t, w.names(), "a/common.go", "a/helpers.go", "a/manager.go", "a/types.go", "a/utils_test.go", "z/utils: the package's name")
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	const whole = "// Package a is.\n//\n// It owns x. It does not\n// know y.\n//\n// Start\n// with [Z].\npackage a"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"whole, over line ends", map[string]string{"a/a.go": whole, "a/b.go": "package a"}, nil},
		{"none", map[string]string{"a/a.go": "package a"}, []string{"has 0 package comments"}},
		{"two", map[string]string{"a/a.go": whole, "a/b.go": whole}, []string{"a/a.go, a/b.go"}},
		{"a part is missing", map[string]string{"a/a.go": strings.Replace(whole, "It owns", "It has", 1)}, []string{`no "It owns"`}},
		{"tests may say more", map[string]string{"a/a.go": whole, "a/a_test.go": "// More.\npackage a"}, nil},
		{"a folder of tests only", map[string]string{"a/a_test.go": "package a"}, []string{"has 0 package comments"}},
		{"generated", map[string]string{"a/a.go": "// Code generated by x. DO NOT EDIT.\n\npackage a"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			expect(t, workspace(t, tc.files).comments(), tc.want...)
		})
	}
}

func TestInits(t *testing.T) {
	t.Parallel()
	w := workspace(t, map[string]string{
		"a/a.go": "package a\nfunc init() {}", "a/b.go": "package a\ntype T int\nfunc (T) init() {}\nfunc initial() {}",
		"a/c.go": "// Code generated by x. DO NOT EDIT.\n\npackage a\nfunc init() {}",
	})
	expect(t, w.inits(), "a/a.go:2")
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		src  string
		want []string
	}{
		{`import "errors"; var ErrX = errors.New("x")`, nil},
		{`import "regexp"; var re = regexp.MustCompile("x")`, nil},
		{`import _ "embed"; var text []byte`, nil},
		{`var table = map[string]int{"a": 1}; func f() int { return table["a"] }`, nil},
		{`var table = map[string]int{"a": 1}; func f() { table := map[string]int{}; table["b"] = 2 }`, nil},
		{`var names = [...]string{"a"}`, nil},
		{`var _ interface{} = (*int)(nil)`, nil},
		{`import "example.com/x"; var schema = &x.Schema{A: 1}`, nil},
		{`var version = "dev"`, nil},
		{`var table = map[string]int{"a": 1}; func f() { table["b"] = 2 }`, []string{"writes to the package-level variable table"}},
		{`var table = map[string]int{"a": 1}; func f() { delete(table, "a") }`, []string{"writes to the package-level variable table"}},
		{`var list = []int{1}; func f() { list = append(list, 2) }`, []string{"writes to the package-level variable list"}},
		{`var list = []int{1}; func f() { list[0]++ }`, []string{"writes to the package-level variable list"}},
		{`var s struct{ n int }; func f() { s.n = 1 }`, []string{"writes to the package-level variable s"}},
		{`var n int; func f() *int { return &n }`, []string{"writes to the package-level variable n"}},
		{`var n int; func f() { for n = range 3 {} }`, []string{"writes to the package-level variable n"}},
		{`var cache = make(map[string]int)`, []string{"cache is empty until"}},
		{`var cache map[string]int`, []string{"cache is empty until"}},
		{`var list []string`, []string{"list is empty until"}},
		{`var current *int`, []string{"current is a pointer"}},
		{`var p = new(int)`, []string{"p is empty until"}},
		{`var c = make(chan int)`, []string{"c is empty until"}},
		{`import "sync"; var mu sync.Mutex`, []string{"mu is a sync.Mutex"}},
		{`import "sync"; var mu = &sync.Mutex{}`, []string{"mu is a sync.Mutex"}},
		{`import "sync/atomic"; var n atomic.Int64`, []string{"n is a atomic.Int64"}},
		{`import "sync/atomic"; var n atomic.Pointer[int]`, []string{"n is a atomic.Pointer"}},
		{`var known int; func f() { known = 1 }`, nil},
	} {
		t.Run(tc.src, func(t *testing.T) {
			t.Parallel()
			w := workspace(t, map[string]string{"a/a.go": "package a; " + tc.src, "a/b_test.go": "package a; var flags = new(int)"})
			constants := map[string]string{}
			if strings.Contains(tc.src, "known") {
				constants["a.known"] = "it is only written once"
			}
			expect(t, w.variables(constants), tc.want...)
		})
	}
	expect(t, workspace(t, map[string]string{"a/a.go": "package a"}).variables(map[string]string{"a.gone": ""}), "name a.gone")
	// Another file of the package counts.
	expect(t, workspace(t, map[string]string{"a/a.go": "package a; var n int", "a/b.go": "package a; func f() { n = 1 }"}).variables(nil), "a/b.go:1: writes")
}

func TestGoroutines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		body string
		want []string
	}{
		{"go f() // owned by the test", nil},
		{"// Ends with the connection.\n\tgo f()", nil},
		{"go func() { // waited for below\n\t}()", nil},
		{"var g interface{ Go(func()) }; g.Go(f)", nil},
		{"go f()", []string{"a/a.go:4"}},
		{"go f() // fast", []string{"a/a.go:4"}},
		{"// Owned by somebody.\n\n\tgo f()", []string{"a/a.go:6"}},
	} {
		t.Run(tc.body, func(t *testing.T) {
			t.Parallel()
			expect(t, workspace(t, map[string]string{"a/a.go": "package a\nfunc f() {}\nfunc g() {\n\t" + tc.body + "\n}"}).goroutines(), tc.want...)
		})
	}
}

func TestSleeps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, src string
		allowed   []Sleep
		want      []string
	}{
		{"a_test.go", "func f() { time.Sleep(1) }", nil, []string{"a/a_test.go:2"}},
		{"a.go", "func f() { time.Sleep(1) // in the bubble\n}", nil, []string{"a/a.go:2"}},
		{"a_test.go", "func f() { time.Sleep(1) // in the bubble of the caller\n}", nil, nil},
		{"a_test.go", "func f() { synctest.Test(t, func(t *testing.T) { go func() { time.Sleep(1) }() }); time.Sleep(2) }", nil, []string{"a/a_test.go:2"}},
		{"a_test.go", "func f() { rapid.SyncTest(t, func(t *testing.T) { time.Sleep(1) }) }", nil, nil},
		{"a_test.go", "func f() { time.Sleep(1) }", []Sleep{{"a/a_test.go", 1, "nothing wakes it"}}, nil},
		{"a_test.go", "func f() {}", []Sleep{{"a/a_test.go", 1, "nothing wakes it"}}, []string{"sleeps 0 times"}},
		{"a_test.go", "func f() {}", []Sleep{{"b/b_test.go", 1, "nothing wakes it"}}, []string{"name b/b_test.go"}},
	} {
		t.Run(tc.name+" "+tc.src, func(t *testing.T) {
			t.Parallel()
			expect(t, workspace(t, map[string]string{"a/" + tc.name: "package a\n" + tc.src}).sleeps(tc.allowed), tc.want...)
		})
	}
}

func TestShellParsers(t *testing.T) {
	w := workspace(t, map[string]string{
		"a/a.go": "package a\nimport \"mvdan.cc/sh/v3/syntax\"\nvar p = syntax.NewParser()", "b/b.go": "package b\nimport \"mvdan.cc/sh/v3/syntax\"\nvar p = syntax.NewParser()",
	})
	expect(t, w.shellParsers([]string{"b", "gone"}), "name gone", "a/a.go:3")
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	w := workspace(t, map[string]string{
		"launch/l.go": "package l\nfunc f() { exec.Command(\"x\") }",
		"plugins/p.go": "package p\nfunc f() { exec.Command(\"x\") }\nfunc g() { exec.LookPath(\"x\") }\n" +
			"var c = exec.Cmd{}\nfunc h() { os.StartProcess() }",
		"plugins/p_test.go": "package p\nfunc f() { exec.Command(\"x\") }",
	})
	expect(t, w.processes([]string{"launch/...", "gone"}), "name gone", "plugins/p.go:2", "plugins/p.go:4", "plugins/p.go:5")
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	w := workspace(t, map[string]string{
		"plugins/x/t.go":      "package x\nvar a = tool.New(\"run_it\", \"\", f)\nvar b = tool.NewFreeform(\"edit\", \"\", f)",
		"plugins/x/t_test.go": "package x\nvar a = tool.New(\"probe\", \"\", f)",
		"host/a/a.go":         "package a\n// run_it is fine here.\nvar s = \"use run_it now\"\nvar t = \"edited probe\"\nvar u = `edit`",
		"host/a/a_test.go":    "package a\nvar s = \"run_it\"",
		"host/a/base.md":      "Call edit first.",
		"sdk/s/s.go":          "package s\nvar s = \"run_it\"",
	})
	tools := w.declaredTools()
	if want := []string{"edit", "run_it"}; !slices.Equal(tools, want) {
		t.Fatalf("tools = %q, want %q", tools, want)
	}
	expect(t, w.toolNames(tools), "host/a/base.md: the host names the tool edit", "host/a/a.go:3", "host/a/a.go:5")
	expect(t, New().toolNames(nil), "no plugin declares a tool")
}

// A workspace that does not parse is an error, not a pass.
func TestAddRefusesWhatIsNotGo(t *testing.T) {
	t.Parallel()
	if err := New().Add("a/a.go", "package"); err == nil {
		t.Error("no error")
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is a workspace")
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	files := map[string]string{"sdk/a/a.go": "package a"}
	for i := range maxFiles + 1 {
		files[fmt.Sprintf("host/internal/many/f%d.go", i)] = "package many"
		files[fmt.Sprintf("sdk/a/f%d.go", i)] = "package a"
	}
	method := func(i int) string { return fmt.Sprintf("func (*T) M%d() {}\n", i) }
	var unix, windows strings.Builder
	for i := range maxMethods {
		unix.WriteString(method(i))
		windows.WriteString(method(i))
	}
	files["host/internal/large/unix.go"] = "//go:build unix\n\npackage large\ntype T struct{}\n" + unix.String()
	files["host/internal/large/windows.go"] = "//go:build windows\n\npackage large\ntype T struct{}\n" + windows.String()
	expect(t, workspace(t, files).sizes(), "host/internal/many: has 21 files")
	files["host/internal/large/plan9.go"] = "package large\n" + method(maxMethods)
	expect(t, workspace(t, files).sizes(), "host/internal/large: type T has 41 methods", "host/internal/many: has 21 files")
}
