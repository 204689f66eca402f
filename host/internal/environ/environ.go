// Package environ decides which variables of the host's environment the processes of tools get.
//
// It owns: the precedence of the policy's parts, the names that suggest a secret, the patterns. It must not know: where the policy is
// written, what a process is, which variables a plugin adds.
//
// Start with [Policy.Apply].
package environ

import (
	"maps"
	"slices"
	"strings"
)

// Inherit says which variables of the host a process inherits.
type Inherit int

// The values. The zero value is None, so that an empty policy reveals nothing.
const (
	None Inherit = iota // no variables
	Core                // what every program expects: see CoreNames
	All                 // all variables
)

// CoreNames are the variables that [Core] keeps. Matches codex 0.169.
var CoreNames = []string{"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"}

// Secret are the patterns of names that suggest a secret. The first three match codex 0.169, which applies them only on request.
var Secret = []string{"*KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*"}

// never are variables that no process gets, whatever the policy is, because they lead to credentials of the host or control gantry-launch.
var never = []string{"OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE", "GANTRY_LAUNCH_STAGE"}

// Policy says which variables a process gets. Patterns ignore case; * matches any characters and ? one.
type Policy struct {
	Inherit     Inherit
	KeepSecrets bool     // inherit variables whose names suggest a secret
	Exclude     []string // patterns of variables that are not inherited
	Set         map[string]string
	IncludeOnly []string // if not empty, only variables that match one of these patterns, including those of Set
}

// Apply returns the environment of a process, K=V, sorted by name. The last of several equal names in base applies. Names for which
// private returns true are not inherited; it may be nil.
func (p Policy) Apply(base []string, private func(name string) bool) []string {
	vars := make(map[string]string, len(base)+len(p.Set))
	for _, kv := range base {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" && p.inherits(name) && (private == nil || !private(name)) {
			vars[name] = value
		}
	}
	maps.Copy(vars, p.Set)
	out := make([]string, 0, len(vars))
	for name, value := range vars {
		if len(p.IncludeOnly) > 0 && !matchesAny(p.IncludeOnly, name) || slices.Contains(never, name) {
			continue
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

func (p Policy) inherits(name string) bool {
	switch p.Inherit {
	case All:
	case Core:
		if !slices.Contains(CoreNames, name) {
			return false
		}
	default:
		return false
	}
	return (p.KeepSecrets || !IsSecret(name)) && !matchesAny(p.Exclude, name)
}

// Lookup returns the value of a variable in an environment of K=V strings, the last one if it occurs more than once.
func Lookup(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// IsSecret reports whether a variable's name suggests that it contains a secret.
func IsSecret(name string) bool { return matchesAny(Secret, name) }

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Match(p, name) })
}

// Match reports whether a name matches a pattern.
func Match(pattern, name string) bool {
	p, n := strings.ToUpper(pattern), strings.ToUpper(name)
	star, from := -1, 0 // the position of the last *, and the end of what it matches so far
	i, j := 0, 0
	for j < len(n) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == n[j]):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
