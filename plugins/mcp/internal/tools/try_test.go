package tools

import (
	"strings"
	"testing"
)

// The folders that are asked about are named by what programs of several languages say.
func TestDeniedFolders(t *testing.T) {
	for line, want := range map[string]string{
		"Error: EROFS: read-only file system, mkdir '/home/me/.npm/_cacache/tmp'":      "/home/me/.npm",
		"OSError: [Errno 30] Read-only file system: '/home/me/.cache/uv/simple/x'":     "/home/me/.cache/uv",
		"open /srv/data/db.sqlite: read-only file system":                              "/srv/data",
		"touch: cannot touch '/root/.local/share/thing/a': Read-only file system":      "/root/.local/share/thing",
		"npm error EACCES: permission denied, open '/Users/me/.config/tool/config.js'": "/Users/me/.config/tool",
		"listening on /srv/data/socket":                                                "",
		"permission denied: /etc/passwd":                                               "",
		"permission denied: /home/me/secrets":                                          "", // a whole home is too much
		"EROFS /home/me/.cache":                                                        "",
		"EROFS /x":                                                                     "",
		"EROFS /usr/lib/node_modules/x and /var/lib/a/b":                               "/var/lib/a",
		"EROFS /var/lib/../../etc/cron.d/x":                                            "",
	} {
		if got := strings.Join(deniedFolders("first line\n"+line+"\n"), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := deniedFolders(strings.Repeat("EROFS /var/a/b /var/c/d /var/e/f /var/g/h /var/i/j\nEROFS /var/k/l /var/m/n /var/o/p /var/q/r", 9)); len(got) != maxFolders {
		t.Errorf("%d folders: %q", len(got), got)
	}
}
