package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxWireName is the longest name of a function that all vendors take.
const maxWireName = 64

// Names maps tools with a namespace to the flat names that every vendor takes, and back: letters, digits, "_" and "-" up
// to 64, beginning with a letter or "_".
type Names struct {
	real map[string]toolName
}

type toolName struct{ namespace, name string }

// NewNames remembers the tools of a request, for the way back.
func NewNames(tools []llm.Tool) *Names {
	n := &Names{real: make(map[string]toolName, len(tools))}
	for _, t := range tools {
		n.real[WireName(t.Namespace, t.Name)] = toolName{t.Namespace, t.Name}
	}
	return n
}

// Real turns a name on the wire back. What is not known stays as it is: the host tells the model that there is no such
// tool.
func (n *Names) Real(namespace, name string) (string, string) {
	if n == nil || namespace != "" {
		return namespace, name
	}
	if t, ok := n.real[name]; ok {
		return t.namespace, t.name
	}
	return namespace, name
}

// WireName is the flat name of a tool. The same tool always has the same one, also when it is no longer offered and only
// the history speaks of it. Names that had to be changed end in a digest, so that they don't meet. Two tools share a name
// only where one is called outright what the other becomes; [Normalised] keeps the last.
func WireName(namespace, name string) string {
	whole := name
	if namespace != "" {
		whole = namespace + "__" + name
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, whole)
	begins := clean != "" && clean[0] != '-' && (clean[0] < '0' || clean[0] > '9')
	if begins && clean == whole && len(clean) <= maxWireName {
		return clean
	}
	if !begins {
		clean = "_" + clean
	}
	sum := sha256.Sum256([]byte(whole))
	suffix := "_" + hex.EncodeToString(sum[:4])
	if len(clean) > maxWireName-len(suffix) {
		clean = clean[:maxWireName-len(suffix)]
	}
	return clean + suffix
}

// NoLongerOffered describes a tool that is named only because a vendor wants to know all that a history speaks of.
const NoLongerOffered = "No longer offered: don't call it."

// CalledTools are the names on the wire of the tools that a history speaks of, each once.
func CalledTools(messages []llm.Message) []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range messages {
		for _, p := range m.Parts {
			c, ok := p.(*llm.ToolCall)
			if !ok || c.ProviderExecuted {
				continue
			}
			if name := WireName(c.Namespace, c.Name); !seen[name] {
				seen[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}
