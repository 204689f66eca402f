// Package environment builds the environment of a plugin's process from an allow-list, the plugin's block and the host's own
// variables.
//
// It owns: which variables are inherited, reserved or dangerous. It must not know: how a process is started.
//
// Start with [Config.Build].
package environment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/sdk/wire"
)

// inherited are the variables that every plugin inherits from the host. The host's environment contains keys, so all others
// have to be set in the plugin's block. CI is inherited because it keeps test frameworks from recording new results, VIRTUAL_ENV
// because, like PATH, it says which programs the user works with.
var inherited = [...]string{"CI", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"}

// reserved are set by the host or by go-plugin; a block can't set them.
var reserved = [...]string{
	wire.CookieKey, wire.LifelineEnv, wire.SocketDirEnv, wire.ProtocolVersionsEnv,
	"PLUGIN_CLIENT_CERT", "PLUGIN_MULTIPLEX_GRPC", "PLUGIN_UNIX_SOCKET_GROUP", "PLUGIN_MIN_PORT", "PLUGIN_MAX_PORT",
}

// loaders make a program load code other than that whose digest was checked.
var loaders = [...]string{"PATH", "PYTHONPATH", "PYTHONHOME", "NODE_OPTIONS", "RUBYOPT", "CLASSPATH", "GOROOT", "BASH_ENV", "ENV"}

// LoadsCode reports whether a variable changes which code a program loads, by way of its interpreter or the dynamic linker.
func LoadsCode(name string) bool {
	upper := strings.ToUpper(name)
	return slices.Contains(loaders[:], upper) || strings.HasPrefix(upper, "LD_") || strings.HasPrefix(upper, "DYLD_")
}

// Check returns an error if a block can't set one of these variables. With unsafe, it may set those that change which code
// the plugin loads. If there are several errors, it is always the same one that is returned.
func Check(env map[string]string, unsafe bool) error {
	for _, k := range slices.Sorted(maps.Keys(env)) {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(env[k], 0):
			return fmt.Errorf("env: %q is not a valid variable", k)
		case slices.Contains(reserved[:], strings.ToUpper(k)):
			return fmt.Errorf("env: %s is set by the host", k)
		case !unsafe && LoadsCode(k):
			return fmt.Errorf("env: %s changes which code the plugin loads; set unsafe_env = true if that is intended", k)
		}
	}
	return nil
}

// memoryShare is the share of its memory limit that a Go plugin's runtime tries to stay under, so that it collects garbage
// before the host has to end it.
const memoryShare = 0.9

// Config determines the environment of one process.
type Config struct {
	Block       map[string]string // the variables that the plugin's block sets
	MemoryBytes int64             // the plugin's memory limit; 0: none
	TmpDir      string            // its own folder for temporary files; empty: the host's
	SocketDir   string            // the folder for its sockets
	Lifeline    int               // the descriptor of its lifeline
}

// Build returns the whole environment, sorted. lookup finds a variable of the host.
func (c Config) Build(lookup func(string) (string, bool)) []string {
	env := map[string]string{}
	for _, k := range append(inherited[:], buildInherits) {
		if v, ok := lookup(k); ok {
			env[k] = v
		}
	}
	if c.MemoryBytes > 0 {
		env["GOMEMLIMIT"] = strconv.FormatInt(int64(float64(c.MemoryBytes)*memoryShare), 10)
	}
	if c.TmpDir != "" {
		env["TMPDIR"] = c.TmpDir
	}
	maps.Copy(env, c.Block)
	env[wire.CookieKey] = wire.CookieValue
	env[wire.ProtocolVersionsEnv] = strconv.Itoa(wire.ProtocolVersion)
	env[wire.SocketDirEnv] = c.SocketDir
	env[wire.LifelineEnv] = strconv.Itoa(c.Lifeline)
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}
