package catalog

import (
	"cmp"
	"crypto/sha1" // not for security: other clients derive the same names
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxNames is the length of a namespace and a name together, which some vendors join with two characters to a name of at most 64.
const (
	maxNames  = 64 - 2
	hashBytes = 12
	suffixLen = 1 + hashBytes
)

// Identity identifies a tool by the names that people and its server use.
type Identity struct{ Server, Tool string }

// Called is how models call a tool. Both names consist of 1 to 64 letters, digits and underscores, and have at most 62 together.
type Called struct{ Namespace, Name string }

// Name returns how the tools of all servers are called. The result does not depend on the order of the tools. Each name occurs once,
// and servers do not share a namespace.
func Name(tools []Identity) map[Identity]Called {
	of := map[string][]string{}
	for _, t := range tools {
		of[t.Server] = append(of[t.Server], t.Tool)
	}
	for server, names := range of {
		slices.Sort(names)
		of[server] = slices.Compact(names)
	}
	out, ambiguous := called(of, nil)
	if len(ambiguous) > 0 {
		out, _ = called(of, ambiguous)
	}
	return out
}

// called returns the names. Servers in apart get a hash in their namespaces. ambiguous are those of which a tool has the same name as one
// of another server once namespace and name are joined, as hooks see them: the tool b__c of a server a must not pass for the tool c of a
// server a__b.
func called(of map[string][]string, apart map[string]bool) (out map[Identity]Called, ambiguous map[string]bool) {
	out, ambiguous = map[Identity]Called{}, map[string]bool{}
	joined := map[string]string{} // to its server
	for server, namespace := range namespaces(of, apart) {
		for tool, name := range callables(server, namespace, of[server]) {
			out[Identity{server, tool}] = Called{namespace, name}
			if other, ok := joined[namespace+"__"+name]; ok {
				ambiguous[server], ambiguous[other] = true, true
			}
			joined[namespace+"__"+name] = server
		}
	}
	return out, ambiguous
}

// serverIdentity is what the hash of a namespace is computed from. Its last part is for tools that several services share a server for,
// which gantry does not have.
func serverIdentity(server string) string { return server + "\x00mcp__" + server + "\x00" }

func toolIdentity(server, tool string) string {
	return serverIdentity(server) + "\x00" + tool + "\x00" + tool
}

// namespaces returns the namespace of each server, with a hash for those in apart.
func namespaces(of map[string][]string, apart map[string]bool) map[string]string {
	servers := slices.Sorted(maps.Keys(of))
	wanted := map[string]string{}
	count := map[string]int{}
	for _, s := range servers {
		wanted[s] = sanitise("mcp__" + s)
		count[wanted[s]]++
	}
	out := map[string]string{}
	used := map[string]bool{}
	for _, s := range servers {
		ns := wanted[s]
		if apart[s] {
			ns = hashed(ns[:min(len(ns), maxNames-2*suffixLen)], serverIdentity(s), 0)
		} else if count[ns] > 1 {
			ns = hashed(ns, serverIdentity(s), 0)
		}
		if len(ns) > maxNames-suffixLen && !fit(of[s], maxNames-len(ns)) {
			ns = ns[:maxNames-suffixLen]
		}
		for attempt := 0; used[ns]; attempt++ {
			ns = hashed(wanted[s][:min(len(wanted[s]), maxNames-2*suffixLen)], serverIdentity(s), attempt)
		}
		out[s], used[ns] = ns, true
	}
	return out
}

// fit reports whether the names of tools need no hash.
func fit(tools []string, room int) bool {
	seen := map[string]bool{}
	for _, t := range tools {
		name := sanitise(t)
		if len(name) > room || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

// callables returns the names of a server's tools. The namespace leaves room for a hash, unless the names fit without one.
func callables(server, namespace string, tools []string) map[string]string {
	wanted := map[string]string{}
	count := map[string]int{}
	for _, t := range tools {
		wanted[t] = sanitise(t)
		count[wanted[t]]++
	}
	room := maxNames - len(namespace)
	out := map[string]string{}
	used := map[string]bool{}
	for _, t := range tools {
		name := wanted[t]
		if count[name] > 1 {
			name = hashed(name, toolIdentity(server, t), 0)
		}
		for attempt := 0; len(name) > room || used[name]; attempt++ {
			name = hashed(wanted[t][:min(len(wanted[t]), room-suffixLen)], toolIdentity(server, t), attempt)
		}
		out[t], used[name] = name, true
	}
	return out
}

// hashed appends a hash of an identity to a name, before two underscores at its end.
func hashed(name, identity string, attempt int) string {
	if attempt > 0 {
		identity += "\x00" + strconv.Itoa(attempt)
	}
	sum := sha1.Sum([]byte(identity))
	base, end := name, ""
	if rest, ok := strings.CutSuffix(name, "__"); ok {
		base, end = rest, "__"
	}
	return base + "_" + hex.EncodeToString(sum[:])[:hashBytes] + end
}

// sanitise replaces each character that is not a letter, a digit or an underscore by an underscore.
func sanitise(s string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s), "_")
}
