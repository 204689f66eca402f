package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxWireName is the maximum length of a function name that all vendors accept.
const maxWireName = 64

// Names maps tools with a namespace to flat names that all vendors accept, and back: letters, digits, "_" and "-", up to 64
// characters, beginning with a letter or "_".
type Names struct {
	real map[string]toolName
}

type toolName struct{ namespace, name string }

// NewNames returns the mapping for the tools of a request.
func NewNames(tools []llm.Tool) *Names {
	n := &Names{real: make(map[string]toolName, len(tools))}
	for _, t := range tools {
		n.real[WireName(t.Namespace, t.Name)] = toolName{t.Namespace, t.Name}
	}
	return n
}

// Real maps a name on the wire back. An unknown name is returned unchanged: the host tells the model that there is no such tool.
func (n *Names) Real(namespace, name string) (string, string) {
	if n == nil || namespace != "" {
		return namespace, name
	}
	if t, ok := n.real[name]; ok {
		return t.namespace, t.name
	}
	return namespace, name
}

// WireName returns the flat name of a tool. It depends only on the tool, so that a tool that is no longer offered keeps its name
// in the history. Names that have to be changed end with a digest to avoid collisions. Two tools can only collide if one already
// has the name that the other is mapped to; [Normalised] keeps the last.
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

// NoLongerOffered describes a tool that is declared only because a vendor requires a declaration for each call in the history.
const NoLongerOffered = "No longer offered: don't call it."

// CalledTools returns the names on the wire of the tools called in a history, without duplicates.
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
