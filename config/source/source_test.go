package source

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/config/version"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]struct {
		kind    Kind
		address string
	}{
		"builtin/shell":                     {Builtin, "builtin/shell"},
		"./bin/weather":                     {Path, "./bin/weather"},
		"./bin/../weather":                  {Path, "./weather"},
		"./../weather":                      {Path, "../weather"},
		"../weather":                        {Path, "../weather"},
		"/opt/x//y":                         {Path, "/opt/x/y"},
		"~/bin/x":                           {Path, "~/bin/x"},
		"weather":                           {Installed, "weather"},
		"weather@1.4.2":                     {Installed, "weather"},
		"registry.example.com/acme/weather": {Registry, "registry.example.com/acme/weather"},
		"registry.example.com/acme/weather@1.0.0": {Registry, "registry.example.com/acme/weather"},
		"localhost:5000/acme/weather":             {Registry, "localhost:5000/acme/weather"},
	} {
		got, err := Parse(s)
		if err != nil || got.Kind != want.kind || got.Address() != want.address {
			t.Errorf("Parse(%q) = %v %q, %v, want %v %q", s, got.Kind, got.Address(), err, want.kind, want.address)
		}
	}
	for s, want := range map[string]string{
		"":                    `the source is empty: write "builtin/NAME", a path like "./bin/NAME", or "NAME"`,
		"Weather":             `source "Weather" is not in canonical form: write "weather"`,
		"builtin/Shell":       `source "builtin/Shell" is not in canonical form: write "builtin/shell"`,
		"builtin/shell@1.0.0": `source "builtin/shell@1.0.0": built-in plugins have no separate version; remove "@1.0.0"`,
		"bin/weather":         `source "bin/weather": a path starts with "./" or "/", a registry address with its host`,
		"too/many/parts/here": `source "too/many/parts/here" is not "builtin/NAME", a path, "NAME" or "HOST/OWNER/NAME"`,
		"-/x":                 `source "-/x": invalid name "-"; names consist of lower-case letters, digits, dashes and underscores`,
		"weather@1.4":         `source "weather@1.4": version "1.4" is not in canonical form: write "1.4.0"`,
		"wea ther":            `source "wea ther": invalid name "wea ther"; names consist of lower-case letters, digits, dashes and underscores`,
		"a\x00b":              `source "a\x00b" contains control characters`,
		"https://x.y/z":       `source "https://x.y/z" is a URL: install the plugin first, then use its name or path`,
	} {
		if got, err := Parse(s); err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %+v, %v, want error %s", s, got, err, want)
		}
	}
}

func TestFile(t *testing.T) {
	for s, want := range map[string]string{
		"./bin/x":   "/project/bin/x",
		"../x":      "/x",
		"/opt/x":    "/opt/x",
		"~/bin/x":   "/home/me/bin/x",
		"builtin/x": "",
	} {
		src, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.ToSlash(src.File("/project", "/home/me")); got != want {
			t.Errorf("%q resolves to %q, want %q", s, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	plugins := t.TempDir()
	for _, name := range []string{"weather@1.4.2", "weather@1.10.0", "weather@2.0.0-rc.1", "weather@junk", "whether@3.0.0"} {
		if err := os.WriteFile(filepath.Join(plugins, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(plugins, "r.example.com", "acme", "tool@1.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ source, constraint, want string }{
		{"weather", "", "weather@1.10.0"},
		{"weather", "~> 1.4.0", "weather@1.4.2"},
		{"weather@1.4.2", "", "weather@1.4.2"},
		{"weather@2.0.0-rc.1", "", "weather@2.0.0-rc.1"},
		{"r.example.com/acme/tool", "1.0.0", "r.example.com/acme/tool@1.0.0/tool"},
		{"weather", ">= 3", ""},
		{"weather@1.4.2", ">= 1.5", ""},
		{"nothing", "", ""},
	} {
		src, err := Parse(tt.source)
		if err != nil {
			t.Fatal(err)
		}
		var cs version.Constraints
		if tt.constraint != "" {
			if cs, err = version.ParseConstraints(tt.constraint); err != nil {
				t.Fatal(err)
			}
		}
		file, _, err := src.Find(plugins, cs)
		if tt.want == "" {
			if !errors.Is(err, ErrNotInstalled) {
				t.Errorf("Find(%s, %s) = %q, %v, want ErrNotInstalled", tt.source, tt.constraint, file, err)
			}
			continue
		}
		if err != nil || file != filepath.Join(plugins, filepath.FromSlash(tt.want)) {
			t.Errorf("Find(%s, %s) = %q, %v, want %q", tt.source, tt.constraint, file, err, tt.want)
		}
	}
}
