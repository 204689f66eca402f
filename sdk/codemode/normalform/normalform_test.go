package normalform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", "async () => {}"}, {" \n\t", "async () => {}"},
		{"  () => 42\n", "() => 42"}, {"async (a, b) => { return a + b; }", "async (a, b) => { return a + b; }"},
		{"async () => { return 1; };", "async () => { return 1; };"}, {"(() => 1)", "(() => 1)"},
		{"1 + 2", "async () => {\nreturn (1 + 2)\n}"},
		{"const x = 10;\nx * 2", "async () => {\nconst x = 10;\nreturn (x * 2)\n}"},
		{"const x = 42", "async () => {\nconst x = 42\n}"}, {"for (;;) {}", "async () => {\nfor (;;) {}\n}"},
		{"if (a) b()", "async () => {\nif (a) b()\n}"}, {"const = oops {{{", "async () => {\nconst = oops {{{\n}"},
		{"```js\n() => 42", "async () => {\n```js\n() => 42\n}"},
		{"export default 42", "async () => {\nreturn (42)\n}"},
		{"export default function() { return 42; }", "async () => {\nreturn (function() { return 42; })();\n}"},
		{"export default class { constructor() {} }", "async () => {\nreturn (class { constructor() {} });\n}"},
		{"export default async () => 1", "async () => 1"},
		{"export default function f() { return 1 }", "async () => {\nfunction f() { return 1 }\nreturn f();\n}"},
		{"async function doStuff() { return 42; }", "async () => {\nasync function doStuff() { return 42; }\nreturn doStuff();\n}"},
		{"function helper() {}\nhelper()", "async () => {\nfunction helper() {}\nreturn (helper())\n}"},
		{"return 42", "async () => {\nreturn 42\n}"},
		{"(async () => { return 42; })()", "async () => {\nreturn ((async () => { return 42; })())\n}"},
		{"let a = 1;\n(a + 1) * 2;", "async () => {\nlet a = 1;\nreturn ((a + 1) * 2)\n}"},
		{"x // the value", "async () => {\nreturn (x // the value\n)\n}"}, {"x; // the value", "async () => {\nreturn (x)\n}"},
		{"const s = 'ü€😀';\ns.length", "async () => {\nconst s = 'ü€😀';\nreturn (s.length)\n}"},
		{"await f()", "async () => {\nreturn (await f())\n}"}, {"a = 1\n/* c */ a", "async () => {\na = 1\n/* c */ return (a)\n}"},
	} {
		if got, _ := Of(c.source); got != c.want {
			t.Errorf("%q:\n%s\nnot\n%s", c.source, got, c.want)
		}
	}
	for _, language := range []string{"js", "javascript", "ts", "typescript", "tsx", "jsx", ""} {
		if got, _ := Of("```" + language + "\n() => 42\n``` \n"); got != "() => 42" {
			t.Errorf("%s: %q", language, got)
		}
	}
}

// A comment with the address of a source map must not make the parser read it.
func TestNoSourceMap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m.map")
	if err := os.WriteFile(file, []byte("not a map"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, parsed := Of("1\n//# sourceMappingURL=file://" + file); !parsed {
		t.Errorf("the map was read: %q", got)
	}
}

func TestStripTypes(t *testing.T) {
	for source, want := range map[string]string{
		"const x: number = 1; return x as any":         "const x = 1",
		"interface A { b: string }\nasync () => 1":     "async () => 1",
		"```ts\nfunction f(a: string): string {}\n```": "function f(a) {",
	} {
		if got, ok := StripTypes(source); !ok || !strings.Contains(got, want) {
			t.Errorf("%q: %q, %v", source, got, ok)
		}
	}
	if got, ok := StripTypes("const = oops {{{"); ok {
		t.Errorf("%q", got)
	}
}

func FuzzOf(f *testing.F) {
	for _, s := range []string{"1 + 2", "export default function() {}", "(a)(b);", "x // y", "```js\n1\n```", "label: (x)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		text, parsed := Of(source)
		if parsed && text != wrap(Unfence(source)) && !valid(strings.TrimRight(text, "; \t\r\n")) {
			t.Errorf("%q: %q", source, text)
		}
	})
}
