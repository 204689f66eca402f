package shell

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

func finder(goos, passwdShell string, there ...string) Finder {
	return Finder{
		GOOS: goos,
		UID:  1000,
		Passwd: func() (io.ReadCloser, error) {
			if passwdShell == "" {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader("root:x:0:0:root:/root:/bin/ash\n# comment\nme:x:1000:1000:Me,,,:/home/me:" + passwdShell + "\n")), nil
		},
		LookPath: func(p string) (string, error) {
			for _, t := range there {
				if t == p || !strings.Contains(p, "/") && strings.HasSuffix(t, "/"+p) {
					return t, nil
				}
			}
			return "", errors.New("not there")
		},
	}
}

func TestDefault(t *testing.T) {
	tests := []struct {
		name, goos, passwd string
		there              []string
		want               Shell
	}{
		{"the user's", "linux", "/usr/bin/zsh", []string{"/usr/bin/zsh", "/bin/bash"}, Shell{"/usr/bin/zsh", POSIX}},
		{"the user's is no shell that we know", "linux", "/usr/bin/fish", []string{"/usr/bin/fish", "/bin/bash", "/bin/zsh"}, Shell{"/bin/bash", POSIX}},
		{"the user's is not there", "linux", "/opt/bash", []string{"/bin/zsh"}, Shell{"/bin/zsh", POSIX}},
		{"along PATH", "linux", "", []string{"/nix/bash"}, Shell{"/nix/bash", POSIX}},
		{"nothing", "linux", "/usr/sbin/nologin", nil, Shell{"/bin/sh", POSIX}},
		{"mac", "darwin", "", []string{"/bin/bash", "/bin/zsh"}, Shell{"/bin/zsh", POSIX}},
		{"windows", "windows", "", []string{`C:/ps/powershell`}, Shell{"C:/ps/powershell", PowerShell}},
		{"old windows", "windows", "", nil, Shell{"cmd.exe", Cmd}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := finder(tt.goos, tt.passwd, tt.there...).Default(); got != tt.want {
				t.Errorf("Default = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestNamed(t *testing.T) {
	f := finder("linux", "", "/bin/bash", "/usr/bin/zsh", "/usr/bin/pwsh", "/bin/fish")
	for wish, want := range map[string]Shell{
		"/bin/bash":     {"/bin/bash", POSIX},
		"zsh":           {"/usr/bin/zsh", POSIX},
		"/opt/zsh":      {"/usr/bin/zsh", POSIX}, // not there, but another of its kind is
		"/bin/fish":     {"/bin/sh", POSIX},
		"/no/such/sh":   {"/bin/sh", POSIX},
		"pwsh.exe":      {"/usr/bin/pwsh", PowerShell},
		"":              {"/bin/sh", POSIX},
		`C:\x\BASH.EXE`: {"/bin/bash", POSIX},
	} {
		if got := f.Named(wish); got != want {
			t.Errorf("Named(%q) = %+v, want %+v", wish, got, want)
		}
	}
}

func TestConfigured(t *testing.T) {
	f := finder("linux", "", "/bin/bash", "/bin/fish")
	if got, ok := f.Configured("/bin/bash"); !ok || got != (Shell{"/bin/bash", POSIX}) {
		t.Errorf("Exact = %+v, %v", got, ok)
	}
	for _, path := range []string{"/bin/fish", "/bin/zsh"} {
		if got, ok := f.Configured(path); ok {
			t.Errorf("Exact(%q) = %+v", path, got)
		}
	}
}

func TestArgv(t *testing.T) {
	tests := []struct {
		kind  Kind
		login bool
		want  []string
	}{
		{POSIX, true, []string{"S", "-lc", "x y"}},
		{POSIX, false, []string{"S", "-c", "x y"}},
		{PowerShell, true, []string{"S", "-Command", "x y"}},
		{PowerShell, false, []string{"S", "-NoProfile", "-Command", "x y"}},
		{Cmd, true, []string{"S", "/c", "x y"}},
		{Cmd, false, []string{"S", "/c", "x y"}},
	}
	for _, tt := range tests {
		if got := (Shell{"S", tt.kind}).Argv("x y", tt.login); !slices.Equal(got, tt.want) {
			t.Errorf("kind %v, login %v: %q, want %q", tt.kind, tt.login, got, tt.want)
		}
	}
}

func TestThisMachineHasAShell(t *testing.T) {
	if got := (Finder{}).Default(); got.Path == "" || got.Kind == Unknown {
		t.Errorf("Default = %+v", got)
	}
}
