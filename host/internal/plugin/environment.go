package plugin

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// inherited are the variables of the host that every plugin sees. Anything else has to stand in the plugin's own block:
// the host's environment holds keys. CI tells that nothing new is to be made: no recording, say.
var inherited = [...]string{"CI", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ"}

// ours are set by the host and can't be set by a block.
var ours = [...]string{
	wire.CookieKey, wire.LifelineEnv, wire.SocketDirEnv, wire.ProtocolVersionsEnv,
	"PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_UNIX_SOCKET_GROUP", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
}

// loaders are variables that put other code into a program than the one whose digest was checked.
var loaders = [...]string{"PATH", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "RUBYOPT", "CLASSPATH", "GOROOT", "BASH_ENV", "ENV"}

// loadsCode tells whether a variable is one of the loaders, or of the dynamic linker.
func loadsCode(name string) bool {
	upper := strings.ToUpper(name)
	return slices.Contains(loaders[:], upper) || strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_")
}

// checkEnv refuses what a block's env can't set. Names are judged in a stable order.
func checkEnv(env map[string]string, unsafe bool) error {
	for _, k := range slices.Sorted(maps.Keys(env)) {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(env[k], 0):
			return fmt.Errorf("env: %q is no name and value of a variable", k)
		case slices.Contains(ours[:], strings.ToUpper(k)):
			return fmt.Errorf("env: %s is set by the host", k)
		case !unsafe && loadsCode(k):
			return fmt.Errorf("env: %s changes which code the plugin runs; set unsafe_env = true if that is meant", k)
		}
	}
	return nil
}

// TmpDir is the folder for temporary files of a plugin that is confined, in that of its sockets.
const TmpDir = "tmp"

// memoryShare of a memory limit is what a Go plugin's runtime is told to stay under, so that it collects garbage before
// the host has to end it.
const memoryShare = 0.9

// environment is the whole environment of a plugin, sorted.
func (s Spec) environment(lookup func(string) (string, bool), socketDir string, lifeline int) []string {
	env := map[string]string{}
	for _, k := range append(inherited[:], ofBuild) {
		if v, ok := lookup(k); ok {
			env[k] = v
		}
	}
	if s.Limits.MemoryBytes > 0 {
		env["GOMEMLIMIT"] = strconv.FormatInt(int64(float64(s.Limits.MemoryBytes)*memoryShare), 10)
	}
	if s.Confine != nil {
		env["TMPDIR"] = filepath.Join(socketDir, TmpDir)
	}
	maps.Copy(env, s.Env)
	env[wire.CookieKey] = wire.CookieValue
	env[wire.ProtocolVersionsEnv] = strconv.Itoa(wire.ProtocolVersion)
	env[wire.SocketDirEnv] = socketDir
	env[wire.LifelineEnv] = strconv.Itoa(lifeline)
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

// hostEnv looks a variable of the host up; a field of the supervisor, so that tests need no environment of their own.
func hostEnv(k string) (string, bool) { return os.LookupEnv(k) }
