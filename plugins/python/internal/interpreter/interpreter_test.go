package interpreter

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there      string // programs, separated by spaces
		configured string
		env, own   string
		want, err  string
	}{
		"configured":          {there: "/opt/python /w/.venv/bin/python", configured: "/opt/python", want: "/opt/python"},
		"configured, missing": {there: "/w/.venv/bin/python", configured: "/opt/python", err: "configured interpreter /opt/python"},
		"environment":         {there: "/w/.venv/bin/python /w/venv/bin/python python3", want: "/w/.venv/bin/python"},
		"second environment":  {there: "/w/venv/bin/python python3", env: "/e", want: "/w/venv/bin/python"},
		"active environment":  {there: "/e/bin/python python3", env: "/e", want: "/e/bin/python"},
		"own environment":     {there: "/e/bin/python /own/bin/python python3", own: "/own/bin/python", env: "/f", want: "/own/bin/python"},
		"before the own one":  {there: "/w/venv/bin/python /own/bin/python", own: "/own/bin/python", want: "/w/venv/bin/python"},
		"own one is missing":  {there: "python3", own: "/own/bin/python", want: "/usr/bin/python3"},
		"PATH":                {there: "python3 python", want: "/usr/bin/python3"},
		"PATH without the 3":  {there: "python", want: "/usr/bin/python"},
		"nothing":             {env: "/e", err: "tried /w/.venv/bin/python, /w/venv/bin/python, /e/bin/python, python3, python"},
	} {
		f := Finder{
			GOOS: "linux", Getenv: func(string) string { return c.env }, Own: func() string { return c.own },
			LookPath: func(p string) (string, error) {
				for _, x := range strings.Fields(c.there) {
					if x == p {
						if !strings.Contains(p, "/") {
							p = "/usr/bin/" + p
						}
						return p, nil
					}
				}
				return "", exec.ErrNotFound
			},
		}
		got, err := f.Find(c.configured, "/w")
		if got != c.want || (c.err == "") != (err == nil) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if c.err != "" {
			if e, ok := errors.AsType[*NotFoundError](err); !ok || !strings.Contains(e.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
		}
	}
}

// An environment whose interpreter is gone is not replaced by another Python, which would lack its packages.
func TestBrokenEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	python := filepath.Join(dir, ".venv", "bin", "python")
	if err := os.MkdirAll(filepath.Dir(python), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nonexistent/python3", python); err != nil {
		t.Skip(err) // not every user of Windows may
	}
	f := Finder{GOOS: "linux", Getenv: func(string) string { return "" }, LookPath: func(p string) (string, error) {
		if p == "python3" {
			return "/usr/bin/python3", nil
		}
		return "", exec.ErrNotFound
	}}
	_, err := f.Find("", dir)
	if e, ok := errors.AsType[*BrokenError](err); !ok || e.Path != python || !strings.Contains(e.Error(), "make that environment again") {
		t.Errorf("%v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".venv")); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Find("", dir); got != "/usr/bin/python3" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// What a program of PATH stands for is remembered per folder, as long as it is there.
func TestResolved(t *testing.T) {
	t.Parallel()
	there := true
	f := Finder{GOOS: "linux", Getenv: func(string) string { return "" }, LookPath: func(p string) (string, error) {
		switch {
		case p == "python3":
			return "/shims/python3", nil
		case p == "/versions/3.12/bin/python3" && there:
			return p, nil
		}
		return "", exec.ErrNotFound
	}}
	find := func(dir, want string) {
		t.Helper()
		if got, err := f.Find("", dir); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	find("/w", "/shims/python3")
	f.Resolved("/shims/python3", "/w", "/versions/3.12/bin/python3")
	find("/w", "/versions/3.12/bin/python3")
	find("/other", "/shims/python3")
	there = false
	find("/w", "/shims/python3")
}

func TestOld(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.9.0": false, "3.10.1": false, "4.0": false, "3.8.20": true, "2.7.18": true, "": true} {
		if Old(version) != want {
			t.Errorf("%q: %t", version, !want)
		}
	}
}
