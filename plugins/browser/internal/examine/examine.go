// Package examine finds out whether a browser can work on this machine.
//
// It owns: what a browser needs, and what to do where it is missing. It must not know: who asks, or how a browser is used.
//
// Start with [Machine.Checks].
package examine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/gantry-agent/gantry/plugins/browser/internal/chromium"
)

// Check is a finding, as `gantry doctor` shows it.
type Check struct {
	Status string `json:"status"` // "ok", "warning", "error"
	Text   string `json:"text"`
	Next   string `json:"next,omitempty"`
}

// Machine is what is examined.
type Machine struct {
	Files      fs.FS  // of the system, from its root
	Configured string // name or path of the browser; empty: the first that is found
	Sandbox    bool   // whether the browser uses its own sandbox
	Root       bool   // the browser starts as root
	// Version runs a browser that only says its version.
	Version func(ctx context.Context, executable string) (string, error)
}

// Checks returns what was found. What can only be wrong because of something else is left out.
func (m Machine) Checks(ctx context.Context) []Check {
	executable, err := chromium.Find(m.Configured)
	if err != nil {
		text, next, _ := strings.Cut(err.Error(), "; ")
		return []Check{{"error", text, next}}
	}
	out := []Check{m.program(ctx, executable), m.sandbox(), m.fonts()}
	return out
}

func (m Machine) program(ctx context.Context, executable string) Check {
	version, err := m.Version(ctx, executable)
	if err != nil {
		return Check{"error", fmt.Sprintf("%s does not start: %v", executable, err), "install it again, with the libraries that it needs"}
	}
	return Check{"ok", strings.TrimSpace(version) + " (" + executable + ")", ""}
}

// obstacles are files with the settings of a system that keep programs from making namespaces, and the values that do.
var obstacles = []struct {
	file, value string
	root        bool // also those of root
	next        string
}{
	{"proc/sys/user/max_user_namespaces", "0", true, "sysctl -w user.max_user_namespaces=10000"},
	{"proc/sys/kernel/unprivileged_userns_clone", "0", false, "sysctl -w kernel.unprivileged_userns_clone=1"},
	{"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", false, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give the browser an AppArmor profile"},
}

func (m Machine) sandbox() Check {
	if !m.Sandbox {
		return Check{"warning", "Chromium's own sandbox is off: a page that takes over its part of the browser has all of it", "leave `sandbox` out of the plugin's block"}
	}
	for _, o := range obstacles {
		b, err := fs.ReadFile(m.Files, o.file)
		if err != nil || strings.TrimSpace(string(b)) != o.value || m.Root && !o.root {
			continue // a system without the setting has no such obstacle
		}
		return Check{"error", fmt.Sprintf("Chromium's own sandbox can't start, because /%s is %s", o.file, o.value),
			o.next + "; or set sandbox = false in the plugin's block, which leaves only gantry's sandbox"}
	}
	return Check{"ok", "the system lets Chromium use its own sandbox", ""}
}

// folders are where fonts are.
var folders = []string{"usr/share/fonts", "usr/local/share/fonts", "usr/share/X11/fonts"}

var errFound = errors.New("found")

func (m Machine) fonts() Check {
	for _, f := range folders {
		err := fs.WalkDir(m.Files, f, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // what can't be read has no fonts for the browser either
			}
			switch strings.ToLower(path.Ext(name)) {
			case ".ttf", ".otf", ".ttc", ".pfb", ".woff", ".woff2":
				return errFound
			}
			return nil
		})
		if errors.Is(err, errFound) {
			return Check{"ok", "there are fonts in /" + f, ""}
		}
	}
	return Check{"warning", "there are no fonts, so pages show boxes in place of text in pictures", "install fonts, such as those of the package fonts-liberation"}
}
