package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
)

// Digest identifies what the configuration was made of, other than the environment and the vault: its files, the files that it reads
// with file(), settings of the command line, the project and whether it is trusted. Two folders without a project have the same digest.
func (c *Config) Digest() string {
	h := sha256.New()
	for _, f := range c.Files {
		fmt.Fprintf(h, "file %d %q\n", f.Layer, f.Path)
	}
	// Without their names, which can depend on the folder.
	var texts []string
	for _, text := range c.sources {
		sum := sha256.Sum256(text)
		texts = append(texts, string(sum[:]))
	}
	slices.Sort(texts)
	for _, t := range texts {
		fmt.Fprintf(h, "text %x\n", t)
	}
	for _, path := range c.held {
		text, err := os.ReadFile(path)
		fmt.Fprintf(h, "reads %q %x %v\n", path, sha256.Sum256(text), err != nil)
	}
	if p := c.Project; p != nil {
		fmt.Fprintf(h, "project %q %q %v\n", p.Dir, p.Digest, p.Trusted)
	}
	return hex.EncodeToString(h.Sum(nil))
}
