package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/internal/function"
	"github.com/gantry-agent/gantry/config/internal/syntax"
	"github.com/gantry-agent/gantry/config/schema"

	"github.com/hashicorp/hcl/v2"
)

// layerText makes a random layer out of a few blocks and arguments, so that layers often speak of the same thing.
func layerText(t *rapid.T, name string) string {
	var b strings.Builder
	value := rapid.SampledFrom([]string{`"1"`, `"2"`, `"3"`, "null"})
	maybe := func(format string, args ...any) {
		if rapid.Bool().Draw(t, name) {
			fmt.Fprintf(&b, format, args...)
		}
	}
	maybe("default_model = %s\n", value.Draw(t, name))
	for _, kind := range []string{"provider", "plugin", "model"} {
		for _, label := range []string{"a", "b"} {
			if !rapid.Bool().Draw(t, name) {
				continue
			}
			fmt.Fprintf(&b, "%s %q {\n", kind, label)
			switch kind {
			case "model":
				maybe("name = %s\n", value.Draw(t, name))
				maybe("provider = %s\n", value.Draw(t, name))
			case "provider":
				maybe("source = %s\n", value.Draw(t, name))
				maybe("own = %s\n", value.Draw(t, name))
				maybe("env {\n  A = %s\n}\n", value.Draw(t, name))
			default:
				maybe("config {\n  own = %s\n}\n", value.Draw(t, name))
				maybe("limits {\n  memory = %s\n}\n", value.Draw(t, name))
				maybe("env {\n  A = %s\n  B = %s\n}\n", value.Draw(t, name), value.Draw(t, name))
			}
			b.WriteString("}\n")
		}
	}
	return b.String()
}

// dump writes everything that merging decides.
func dump(b *strings.Builder, n *node, depth int) {
	indent := strings.Repeat(" ", depth)
	fmt.Fprintf(b, "%s%s %q %s:%d\n", indent, n.schema.Name, n.label, n.header.Filename, n.header.Start.Line)
	for _, name := range slices.Sorted(maps.Keys(n.attrs)) {
		fmt.Fprintf(b, "%s %s from %s\n", indent, name, n.attrs[name].at)
	}
	for _, f := range n.open {
		fmt.Fprintf(b, "%s open %s %v\n", indent, f.Header, f.Path)
	}
	for _, k := range n.order {
		dump(b, n.blocks[k], depth+1)
	}
}

func dumped(n *node) string {
	if n == nil {
		return "nothing"
	}
	var b strings.Builder
	dump(&b, n, 0)
	return b.String()
}

func drawNode(t *rapid.T, root *schema.Block, name string) *node {
	r := &reader{files: make(diag.Files), from: &origin{scope: function.NewScope(function.Sources{}, "/")}}
	switch rapid.IntRange(0, 9).Draw(t, name) {
	case 0:
		return nil // a layer without a file
	case 1:
		set := rapid.SampledFrom([]string{"model.a.name", "plugin.b.env.A", "plugin.a.config.own", "provider.b.own", "default_model"}).Draw(t, name)
		return r.set(set+"=4", root)
	}
	text := layerText(t, name)
	body, ds := syntax.Parse([]byte(text), name)
	n := r.node(body, root, "", hcl.Range{Filename: name})
	if ds.HasErrors() || r.ds.HasErrors() {
		t.Fatalf("%v %v in\n%s", ds, r.ds, text)
	}
	return n
}

func TestMergeIsAssociative(t *testing.T) {
	root := schema.Root()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawNode(t, root, "a"), drawNode(t, root, "b"), drawNode(t, root, "c")
		before := [3]string{dumped(a), dumped(b), dumped(c)}
		left, right := merge(merge(a, b), c), merge(a, merge(b, c))
		if dumped(left) != dumped(right) {
			t.Fatalf("(a b) c:\n%s\na (b c):\n%s", dumped(left), dumped(right))
		}
		if after := [3]string{dumped(a), dumped(b), dumped(c)}; after != before {
			t.Fatal("merging changed a layer")
		}
	})
}

func TestSplitPath(t *testing.T) {
	for s, want := range map[string]string{
		"a":              "a",
		"a.b-c.d_e":      "a|b-c|d_e",
		`a."b.c".d`:      "a|b.c|d",
		`a["b.c"].d`:     "a|b.c|d",
		`a["b"]["c"]`:    "a|b|c",
		`model."x=y".z`:  "model|x=y|z",
		"":               "!",
		".a":             "!",
		"a.":             "!",
		"a..b":           "!",
		`a."b`:           "!",
		`a["b"`:          "!",
		`a"b"`:           "!",
		`a.""`:           "!",
		`a["b"]c`:        "!",
		`a.b[0]`:         "a|b|[0]",
		`a.["b"]`:        "a|b",
		`a.b."c"."d".e1`: "a|b|c|d|e1",
	} {
		got, err := SplitPath(s)
		text := strings.Join(got, "|")
		if err != nil {
			text = "!"
		}
		if text != want && !(s == `a.b[0]` && err != nil) {
			t.Errorf("SplitPath(%q) = %q, %v, want %q", s, text, err, want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for s, want := range map[string]int64{
		"256MiB": 256 << 20, "1.5GiB": 3 << 29, "10kB": 10_000, "1 KiB": 1024, "7B": 7, "2TB": 2e12, "0B": 0,
		"": -1, "256": -1, "MiB": -1, "-1MiB": -1, "NaNMiB": -1, "9000000TiB": -1, "1mib": -1, "InfB": -1,
	} {
		got, err := parseSize(s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "30d": 720 * time.Hour, "2w": 336 * time.Hour, "0s": 0,
		"": -1, "90": -1, "-1s": -1, "-1d": -1, "1.5d": -1, "999999999999d": -1, "d": -1, "1y": -1,
	} {
		got, err := parseDuration(s)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseDuration(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
}
