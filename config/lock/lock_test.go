package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gantry-agent/gantry/config/version"
)

const (
	hashA = "b1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" // of nothing
	hashB = "b1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=" // of "abc"
)

const sample = header + `
plugin "./bin/weather" {
  version     = "0.1.0"
  contract    = 1
  manifest    = "m1:x"
  grants      = "g1:y"

  platform "linux_amd64" {
    binary  = "` + hashA + `"
  }
}

plugin "registry.example.com/acme/weather" {
  version     = "1.4.2"
  constraints = "~> 1.4"
  contract    = 1
  manifest    = "m1:x"
  grants      = "g1:y"
  signer      = "sigstore:https://github.com/acme/weather/.github/workflows/release.yml@refs/tags/v1.4.2"

  platform "darwin_arm64" {
    package = "p1:z"
  }

  platform "linux_amd64" {
    binary  = [
      "` + hashA + `",
      "` + hashB + `",
    ]
    package = "p1:z"
  }
}

process "mcp.server.github" {
  content = "d1:a"
  program = "d1:b"
}

process "mcp.server.other" {
  content = "d1:a"
  program = [
    "d1:b",
    "d1:c",
  ]
}
`

func TestCanonicalFormReadsBackAsItself(t *testing.T) {
	f, ds := Parse([]byte(sample), "gantry.lock.hcl")
	if len(ds) > 0 {
		t.Fatal(ds.Err())
	}
	if got := string(f.Bytes()); got != sample {
		t.Errorf("printed as:\n%s\nwant:\n%s", got, sample)
	}
	e, ok := f.Entry("registry.example.com/acme/weather")
	if !ok || e.Version.String() != "1.4.2" || e.Constraints.String() != "~> 1.4" || len(e.Platforms) != 2 || e.Range.Start.Line != 15 {
		t.Errorf("entry = %+v, %v", e, ok)
	}
}

func TestParseVectors(t *testing.T) {
	plugin := func(address, body string) string {
		return fmt.Sprintf("plugin %q {\n%s\n}\n", address, body)
	}
	const v = `version = "1.0.0"`
	for _, tt := range []struct {
		name, text, want string // summary|detail|line, "" for no problem
	}{
		{"empty address", plugin("", v), `invalid plugin address|The source is empty`},
		{"too many parts", plugin("too/many/parts/here", v), `invalid plugin address|Source "too/many/parts/here" is not "builtin`},
		{"built-in", plugin("builtin/shell", v), `invalid plugin address|"builtin/shell" is built in and is not locked`},
		{"dash", plugin("-/x", v), `invalid plugin address|Source "-/x": invalid name "-"`},
		{"two parts", plugin("hashicorp/aws", v), `invalid plugin address|Source "hashicorp/aws": a path starts with`},
		{"upper case", plugin("registry.example.com/Acme/weather", v), `non-normalized plugin address|Source "registry.example.com/Acme/weather" is not in canonical form`},
		{"path not clean", plugin("./a/../b", v), `non-normalized plugin address|The normal form of "./a/../b" is "./b".`},
		{"version in the address", plugin("weather@1.0.0", v), `invalid plugin address|Specify the version of "weather@1.0.0" in the argument "version"`},
		{"installed by name", plugin("weather", v), ``},
		{"twice", plugin("weather", v) + plugin("weather", v), `duplicate plugin lock|Plugin "weather" is already locked at gantry.lock.hcl:1.`},
		{"version empty", plugin("weather", `version = ""`), `invalid plugin version number|Version "" is not a semantic version`},
		{"version v", plugin("weather", `version = "v1.0.0"`), `invalid plugin version number|Version "v1.0.0" is not in canonical form: write "1.0.0".`},
		{"version 1.0", plugin("weather", `version = "1.0"`), `invalid plugin version number|Version "1.0" is not in canonical form: write "1.0.0".`},
		{"version 1", plugin("weather", `version = "1"`), `invalid plugin version number|Version "1" is not in canonical form: write "1.0.0".`},
		{"version 1.02", plugin("weather", `version = "1.02"`), `invalid plugin version number|Version "1.02" is not in canonical form: write "1.2.0".`},
		{"version missing", plugin("weather", ``), `missing required argument|The argument "version" is required`},
		{"version null", plugin("weather", `version = null`), `missing required argument|The argument "version" must not be null.`},
		{"version number", plugin("weather", `version = 1`), `unsuitable value type|The argument "version" must be a quoted string`},
		{"version computed", plugin("weather", `version = "${1}.0.0"`), `unsuitable value type|The argument "version" must be a quoted string`},
		{"constraints not canonical", plugin("weather", v+"\nconstraints = \">=1\""), `non-normalized version constraints|The normal form is ">= 1.0.0".`},
		{"constraints broken", plugin("weather", v+"\nconstraints = \"^1\""), `invalid version constraints|Version constraint "^1"`},
		{"contract", plugin("weather", v+"\ncontract = 1.5"), `invalid contract version|The contract version must be a whole number`},
		{"no hashes", plugin("weather", v+"\nplatform \"linux_amd64\" {\n binary = []\n}"), `no hashes|Remove "binary", or add at least one hash.`},
		{"hash without scheme", plugin("weather", v+"\nplatform \"linux_amd64\" {\n binary = \"abc\"\n}"), `invalid hash|Hash "abc" must start with a scheme and a colon`},
		{"hash with empty scheme", plugin("weather", v+"\nplatform \"linux_amd64\" {\n binary = [\":x\"]\n}"), `invalid hash|Hash ":x" must start with a scheme and a colon`},
		{"unknown scheme", plugin("weather", v+"\nplatform \"linux_amd64\" {\n binary = \"test:zzz\"\n}"), ``},
		{"platform name", plugin("weather", v+"\nplatform \"linux\" {\n}"), `invalid platform|"linux" is not an operating system and an architecture`},
		{"platform twice", plugin("weather", v+"\nplatform \"linux_amd64\" {\n}\nplatform \"linux_amd64\" {\n}"), `duplicate platform|Platform "linux_amd64" is already defined at gantry.lock.hcl:3.`},
		{"unknown argument", plugin("weather", v+"\nsinger = \"x\""), `unsupported argument|An argument named "singer" is not expected here.`},
		{"unknown block", "provider \"x\" {\n}\n", `unsupported block type|Blocks of type "provider" are not expected here.`},
		{"process twice", "process \"a\" {\n content = \"d1:a\"\n program = \"d1:b\"\n}\nprocess \"a\" {\n content = \"d1:a\"\n program = \"d1:b\"\n}\n", `duplicate process lock|The process "a" is already locked at gantry.lock.hcl:1.`},
		{"process without a program", "process \"a\" {\n content = \"d1:a\"\n}\n", `missing required argument|The argument "program" is required`},
		{"process with a wrong hash", "process \"a\" {\n content = \"abc\"\n program = \"d1:b\"\n}\n", `invalid hash|Hash "abc" must start with a scheme`},
		{"merge", plugin("weather", v) + "<<<<<<< HEAD\n=======\n>>>>>>> other\n", `the lock file contains merge conflict markers|Keep the blocks of different plugins.`},
		{"syntax", "plugin \"weather\" {\n version =\n}\n", `invalid expression|`},
		{"empty", "", ``},
		{"deep", "plugin \"weather\" {\n signer = " + strings.Repeat("[", 100_000), `brackets are nested too deeply|`},
		{"large", strings.Repeat("#", 2<<20), `the file is too large|`},
	} {
		f, ds := Parse([]byte(tt.text), "gantry.lock.hcl")
		if tt.want == "" {
			if len(ds) > 0 || f == nil {
				t.Errorf("%s: %v", tt.name, ds)
			}
			continue
		}
		if !ds.HasErrors() || f != nil {
			t.Errorf("%s: no error, want %s", tt.name, tt.want)
			continue
		}
		summary, detail, _ := strings.Cut(tt.want, "|")
		if d := ds[0]; d.Summary != summary || !strings.HasPrefix(d.Detail, detail) || d.Range.File == "" || d.Next == "" {
			t.Errorf("%s: got %q, %q at %s, next %q; want %s", tt.name, d.Summary, d.Detail, d.Range, d.Next, tt.want)
		}
	}
}

func TestMatch(t *testing.T) {
	known := []Hash{"b1:1", "b1:2", "b1:3", "test:zzz", hashA}
	if err := Match(known, hashA); err != nil {
		t.Errorf("one of five matches: %v", err)
	}
	if err := Match(known, hashB); !errors.Is(err, ErrDiffers) {
		t.Errorf("none matches: %v, want ErrDiffers", err)
	}
	if err := Match([]Hash{"test:zzz"}, hashA); !errors.Is(err, ErrNoScheme) {
		t.Errorf("unknown schemes: %v, want ErrNoScheme", err)
	}
	if err := Match([]Hash{"test:zzz"}, "test:zzz"); err != nil {
		t.Errorf("equal text: %v", err)
	}
}

func TestLearn(t *testing.T) {
	e := Entry{Address: "weather", Platforms: map[string]Hashes{"linux_amd64": {Binary: []Hash{"b1:old", hashA}}}}
	if err := e.Learn("linux_amd64", Hashes{Binary: []Hash{hashB}}, Hashes{}); !errors.Is(err, ErrDiffers) {
		t.Errorf("other content was learned: %v", err)
	}
	if err := e.Learn("linux_amd64", Hashes{Binary: []Hash{hashA, "b2:new"}}, Hashes{Package: []Hash{"p1:signed"}}); err != nil {
		t.Error(err)
	}
	// Another platform never has to match this one.
	if err := e.Learn("darwin_arm64", Hashes{Binary: []Hash{hashB}}, Hashes{}); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(e.Platforms), fmt.Sprint(map[string]Hashes{
		"darwin_arm64": {Binary: []Hash{hashB}},
		"linux_amd64":  {Binary: []Hash{hashA, "b1:old", "b2:new"}, Package: []Hash{"p1:signed"}},
	}); got != want {
		t.Errorf("platforms = %s, want %s", got, want)
	}
}

func mustVersion(t *testing.T, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPutKeepsOtherPlatformsOfTheSameVersion(t *testing.T) {
	f := New("l")
	put := func(v, platform string, h Hash) {
		t.Helper()
		if err := f.Put(Entry{Address: "weather", Version: mustVersion(t, v), Platforms: map[string]Hashes{platform: {Binary: []Hash{h}}}}); err != nil {
			t.Fatal(err)
		}
	}
	put("1.0.0", "linux_amd64", hashA)
	put("1.0.0", "darwin_arm64", hashB)
	if e, _ := f.Entry("weather"); len(e.Platforms) != 2 {
		t.Errorf("platforms = %v, want both", e.Platforms)
	}
	put("1.0.0", "linux_amd64", hashB) // built anew: the old program is not accepted any more
	if e, _ := f.Entry("weather"); fmt.Sprint(e.Platforms["linux_amd64"].Binary) != fmt.Sprint([]Hash{hashB}) {
		t.Errorf("platforms = %v, want the new hash alone", e.Platforms)
	}
	put("1.0.1", "linux_amd64", hashA)
	if e, _ := f.Entry("weather"); len(e.Platforms) != 1 {
		t.Errorf("platforms = %v, want those of the old version dropped", e.Platforms)
	}
	for _, bad := range []Entry{
		{Address: "weather"}, {Address: "builtin/x", Version: mustVersion(t, "1.0.0")},
		{Address: "w", Version: mustVersion(t, "1.0.0"), Platforms: map[string]Hashes{"linux": {}}},
		{Address: "w", Version: mustVersion(t, "1.0.0"), Manifest: "x"},
	} {
		if err := f.Put(bad); err == nil {
			t.Errorf("Put(%+v) = nil, want an error", bad)
		}
	}
}

func TestCheck(t *testing.T) {
	f, ds := Parse([]byte(sample), "gantry.lock.hcl")
	if ds.HasErrors() {
		t.Fatal(ds.Err())
	}
	constraints, err := version.ParseConstraints(">= 2")
	if err != nil {
		t.Fatal(err)
	}
	good := Program{
		Address: "./bin/weather", Label: "weather", Version: mustVersion(t, "0.1.0"), Contract: 1,
		Manifest: "m1:x", Grants: "g1:y", Platform: "linux_amd64", Binary: hashA,
	}
	if err := f.Check(good); err != nil {
		t.Errorf("as locked: %v", err)
	}
	for _, tt := range []struct {
		reason Reason
		change func(*Program)
		want   string
	}{
		{ReasonNotLocked, func(p *Program) { p.Address = "./bin/other" }, `plugin "weather" is not locked`},
		{ReasonPlatform, func(p *Program) { p.Platform = "darwin_arm64" }, `it is locked for "linux_amd64", but not for darwin_arm64`},
		{ReasonBinary, func(p *Program) { p.Binary = hashB }, `the program's checksum is ` + hashB},
		{ReasonScheme, func(p *Program) { p.Binary = "b9:x" }, `no checksum in a supported format`},
		{ReasonVersion, func(p *Program) { p.Version = mustVersion(t, "0.2.0") }, `the program reports version 0.2.0, but 0.1.0`},
		{ReasonConstraints, func(p *Program) { p.Constraints = constraints }, `version 0.1.0 is locked, but the block requires ">= 2.0.0"`},
		{ReasonContract, func(p *Program) { p.Contract = 2 }, `contract version 2, but 1`},
		{ReasonManifest, func(p *Program) { p.Manifest = "m1:z" }, `manifest differs from the locked one`},
		{ReasonGrants, func(p *Program) { p.Grants = "g1:z" }, `permissions differ from those that were accepted`},
	} {
		p := good
		tt.change(&p)
		err := f.Check(p)
		m, ok := errors.AsType[*Mismatch](err)
		if !ok || m.Reason != tt.reason || !strings.Contains(err.Error(), tt.want) || m.Next == "" {
			t.Errorf("reason %d: got %v, want one with %q", tt.reason, err, tt.want)
		}
	}
}

func TestUpdateOfManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			err := Update(t.Context(), path, func(f *File) error {
				return f.Put(Entry{Address: fmt.Sprintf("./bin/p%d", i), Version: mustVersion(t, "1.0.0"),
					Platforms: map[string]Hashes{Platform(): {Binary: []Hash{hashA}}}})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f, ds := Read(path)
	if ds.HasErrors() || len(f.Entries()) != 12 {
		t.Fatalf("entries = %v, %v, want 12", f, ds)
	}
	if err := Update(t.Context(), path, func(f *File) error {
		f.Remove("./bin/p0")
		if got := f.Prune([]string{"./bin/p1", "./bin/p2"}); len(got) != 9 {
			t.Errorf("pruned %v, want 9", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if f, _ = Read(path); len(f.Entries()) != 2 {
		t.Errorf("entries = %v, want p1 and p2", f.Entries())
	}
	if err := os.WriteFile(path, []byte("plugin {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Update(t.Context(), path, func(*File) error { return nil }); err == nil {
		t.Error("Update took a broken lock file")
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "plugin {" {
		t.Errorf("file = %q, %v, want it untouched", got, err)
	}
	if f, ds := Read(filepath.Join(t.TempDir(), "none")); ds != nil || f == nil || len(f.Entries()) != 0 {
		t.Errorf("missing file: %v, %v, want an empty lock", f, ds)
	}
}

// Two branches each lock another plugin. Line by line, the changes are insertions that leave every other line as it was.
func TestAddingNeverChangesOtherLines(t *testing.T) {
	f, _ := Parse([]byte(sample), "l")
	before := strings.Split(string(f.Bytes()), "\n")
	if err := f.Put(Entry{Address: "./bin/zzz", Version: mustVersion(t, "1.0.0"), Signer: "me", Platforms: map[string]Hashes{"linux_amd64": {Binary: []Hash{hashA}}}}); err != nil {
		t.Fatal(err)
	}
	e, _ := f.Entry("./bin/weather")
	if err := e.Learn("darwin_arm64", Hashes{Binary: []Hash{hashB}}, Hashes{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(e); err != nil {
		t.Fatal(err)
	}
	after := strings.Split(string(f.Bytes()), "\n")
	for _, line := range after { // before must be a subsequence of after
		if len(before) > 0 && line == before[0] {
			before = before[1:]
		}
	}
	if len(before) > 0 {
		t.Errorf("line changed: %q, in\n%s", before[0], strings.Join(after, "\n"))
	}
}

func TestHashFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := HashFile(path)
	if err != nil || h != hashB {
		t.Errorf("HashFile = %q, %v, want %q", h, err, hashB)
	}
	if back, err := Binary(h.Hex()); err != nil || back != h {
		t.Errorf("through hex: %q, %v, want %q", back, err, h)
	}
	if Hash("m1:x").Hex() != "" || Hash("b1:x").Hex() != "" {
		t.Error("only checksums of content have a hex form")
	}
	if _, err := Binary("xyz"); err == nil {
		t.Error("Binary took what is no hex")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte("plugin \"a\" {\n version = \"1.0.0\"\n signer = \"$${x} %%{y} \\u00e9 \\\" \\\\\"\n}\n"))
	f.Add([]byte("plugin \"./x\" { version = null }"))
	f.Add([]byte("<<<<<<< x"))
	f.Fuzz(func(t *testing.T, src []byte) {
		l, ds := Parse(src, "l")
		if (l == nil) != ds.HasErrors() {
			t.Fatalf("lock %v with diagnostics %v", l, ds)
		}
		if l == nil {
			return
		}
		printed := l.Bytes()
		again, ds := Parse(printed, "l")
		if ds.HasErrors() {
			t.Fatalf("canonical form is not read back: %v\n%s", ds.Err(), printed)
		}
		if string(again.Bytes()) != string(printed) {
			t.Fatalf("canonical form changed:\n%s\n%s", printed, again.Bytes())
		}
	})
}

// The program of a process differs from one machine to the next; other content is another process.
func TestPutProcess(t *testing.T) {
	f := New("gantry.lock.hcl")
	for _, p := range []Process{{Name: "a", Content: "d1:1", Programs: []Hash{"d1:x"}}, {Name: "a", Content: "d1:1", Programs: []Hash{"d1:w"}}} {
		if err := f.PutProcess(p); err != nil {
			t.Fatal(err)
		}
	}
	if p, ok := f.Process("a"); !ok || len(p.Programs) != 2 || p.Programs[0] != "d1:w" {
		t.Errorf("the same content: %+v, %v", p, ok)
	}
	if err := f.PutProcess(Process{Name: "a", Content: "d1:2", Programs: []Hash{"d1:v"}}); err != nil {
		t.Fatal(err)
	}
	if p, _ := f.Process("a"); len(p.Programs) != 1 || p.Content != "d1:2" {
		t.Errorf("other content: %+v", p)
	}
	if err := f.PutProcess(Process{Name: "b", Content: "junk"}); err == nil || len(f.Processes()) != 1 {
		t.Errorf("a wrong hash: %v, %v", err, f.Processes())
	}
}
