// Package help is what a model can read about situations in a browser, and what to do in them.
//
// It owns: the texts and their names. It must not know: the browser, or the tools that the texts are about.
//
// Start with [Text].
package help

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed topics/*.md
var topics embed.FS

// Topics returns the names of the texts, in their order.
func Topics() []string {
	files, err := fs.ReadDir(topics, "topics")
	if err != nil { // impossible: it is part of the program
		panic("help: " + err.Error())
	}
	var out []string
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f.Name(), ".md"))
	}
	return out
}

// Text returns a text. Names may have spaces and capitals.
func Text(topic string) (string, error) {
	name := strings.Join(strings.Fields(strings.ToLower(strings.ReplaceAll(topic, "-", " "))), "-")
	b, err := topics.ReadFile("topics/" + name + ".md")
	if err != nil || strings.Contains(name, "/") {
		return "", fmt.Errorf("there is no topic %q; the topics are %s", topic, strings.Join(Topics(), ", "))
	}
	return strings.TrimSpace(string(b)), nil
}
