package grants

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/host/internal/environ"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// NewBox returns the command sandbox for a home of gantry's and the user's environment. keys are the files that the configuration
// reads keys from, programs those of tool plugins; nil: none. moved is called with the files that the sandbox moved aside.
func NewBox(home string, env []string, keys func() []config.KeyFile, programs func() []string, moved func(launch.Owner, []box.Moved, error)) *box.Sandbox {
	var files func() []string
	if keys != nil {
		files = func() []string { return KeyPaths(keys(), "") }
	}
	return box.New(box.Config{Home: home, UserHome: UserHome(env), Environ: env, KeyFiles: files, Programs: programs, Moved: moved})
}

// UserHome returns the folder with the user's own keys, which sandboxes hide: $HOME, or the account's home, because system services
// often start without HOME. It is empty if the account has none.
func UserHome(env []string) string {
	if dir := environ.Lookup(env, "HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return ""
}
