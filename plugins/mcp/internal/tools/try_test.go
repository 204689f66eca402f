package tools

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The folders that are asked about are named by what programs of several languages say.
func TestDeniedFolders(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := deniedFolders("EROFS "+file+" "+file+"s", home, "/opt/state/gantry/data/mcp"); strings.Join(got, " ") != file+"s" {
		t.Errorf("a file in a home, and what does not exist: %q", got)
	}
	for line, want := range map[string]string{
		"Error: EROFS: read-only file system, mkdir '/home/me/.npm/_cacache/tmp'":      "/home/me/.npm",
		"OSError: [Errno 30] Read-only file system: '/home/me/.cache/uv/simple/x'":     "/home/me/.cache/uv",
		"open /srv/data/db.sqlite: read-only file system":                              "/srv/data",
		"touch: cannot touch '/root/.local/share/thing/a': Read-only file system":      "/root/.local/share/thing",
		"npm error EACCES: permission denied, open '/Users/me/.config/tool/config.js'": "/Users/me/.config/tool",
		"listening on /srv/data/socket":                                                "",
		"permission denied: /etc/passwd":                                               "",
		"permission denied: /home/me/secrets":                                          "/home/me/secrets", // a whole home is too much
		"Read-only file system: '/root/notes-state'":                                   "/root/notes-state",
		"Read-only file system: '/srv/people/me/notes-state'":                          "/srv/people/me/notes-state",
		"Read-only file system: '/srv/people/me/.npm/x/y'":                             "/srv/people/me/.npm",
		"Read-only file system: '/srv/people/me'":                                      "",
		"Read-only file system: '/srv/people/new'":                                     "/srv/people/new",
		"Read-only file system: '/srv/people'":                                         "",
		"Read-only file system: '/opt/state/new'":                                      "/opt/state/new",
		"Read-only file system: '/opt/state/gantry'":                                   "",
		"EROFS /home/me/.cache":                                                        "",
		"EROFS /x":                                                                     "",
		"EROFS /usr/lib/node_modules/x and /var/lib/a/b":                               "/var/lib/a",
		"Error: EACCES: permission denied, open '/root/.ssh/authorized_keys'":          "",
		"EROFS /Users/me/.SSH/config":                                                  "",
		"EROFS /srv/home/me/.gnupg/x/y":                                                "",
		"EROFS /home/me/.bashrc":                                                       "",
		"EROFS /home/me/.gantry/config.hcl":                                            "",
		"EROFS /home/me/.config/gantry/config.hcl":                                     "",
		"EROFS /home/me/.config/systemd/user/x.service":                                "",
		"EROFS /home/me/.config/autostart/x.desktop":                                   "",
		"EROFS /var/lib/../../etc/cron.d/x":                                            "",
	} {
		got, tried := deniedFolders("first line\n"+line+"\n", "/srv/people/me", "/opt/state/gantry/data/mcp")
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		for _, dir := range got {
			if p := tried[dir]; !strings.HasPrefix(p, dir) || !strings.Contains(line, p) {
				t.Errorf("%q: it has tried %q", line, p)
			}
		}
	}
	if got, _ := deniedFolders(strings.Repeat("EROFS /var/a/b /var/c/d /var/e/f /var/g/h /var/i/j\nEROFS /var/k/l /var/m/n /var/o/p /var/q/r", 9), "", ""); len(got) != maxFolders {
		t.Errorf("%d folders: %q", len(got), got)
	}
}

// No folder is offered in which the host keeps something from commands.
func TestSensitivePlacesAreTheHosts(t *testing.T) {
	for file, lists := range map[string][]string{
		"../../../../host/internal/launch/box/secrets/places.go":  {"UserCredentials", "UserCredentialsOnMacOS"},
		"../../../../host/internal/launch/box/autorun/startup.go": {"startup"},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, list := range lists {
			found := 0
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.ValueSpec)
				if !ok || spec.Names[0].Name != list {
					return true
				}
				for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
					place, err := strconv.Unquote(e.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					for _, dir := range []string{"/home/me/" + place, "/root/" + place + "/below", "/srv/me/" + place} {
						if !sensitive(dir) {
							t.Errorf("%s: %s could be offered", list, dir)
						}
					}
					found++
				}
				return false
			})
			if found == 0 {
				t.Errorf("%s: no list %s", file, list)
			}
		}
	}
}
