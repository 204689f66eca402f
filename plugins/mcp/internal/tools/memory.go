package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// memory is what is remembered of a server, so that its tools can be offered before it is started.
type memory struct {
	Tools        []catalog.Tool `json:"tools"`
	Instructions string         `json:"instructions"`

	Prompts   []contract.SourcePrompt `json:"prompts"`
	Resources bool                    `json:"resources"`
	Problems  []string                `json:"problems"` // of tools that are left out
	Login     bool                    `json:"login"`    // whether there was a login then
}

// same reports whether two memories are of the same answers of a server.
func (m memory) same(o memory) bool {
	return sameList(m.Tools, o.Tools) && sameList(m.Prompts, o.Prompts) && m.Instructions == o.Instructions && m.Resources == o.Resources
}

// sameList reports whether two lists, which are never changed, are one.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// identity returns a digest of a server's block: a server is the same as long as its block is.
func identity(b Server) (string, error) {
	login := OAuth{Registration: true, Grant: authorizationCode}
	if b.OAuth != nil {
		login = *b.OAuth
		login.TokenURL = "" // set by a login
	}
	b.OAuth = &login
	raw, err := json.Marshal(b)
	if err != nil {
		return "", fmt.Errorf("server %q: %w", b.Name, err)
	}
	sum := sha256.Sum256(fmt.Appendf(raw, "%s %v", b.Name, b.BearerToken.IsZero()))
	return hex.EncodeToString(sum[:]), nil
}

// recall returns what is remembered; nothing if there is nothing that can be read.
func recall(dir, identity string) (m memory) {
	if dir == "" {
		return m
	}
	raw, err := os.ReadFile(cacheFile(dir, identity))
	if err != nil || json.Unmarshal(raw, &m) != nil {
		return memory{}
	}
	return m
}

// remember replaces what is remembered.
func remember(dir, identity string, m memory) error {
	if dir == "" {
		return nil
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return replace(cacheFile(dir, identity), raw)
}

// replace replaces a file as a whole.
func replace(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
