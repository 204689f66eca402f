// Command snapshot updates the catalog that is built into the providers: it reads the published one from standard input and writes
// a file for each vendor to the given folder.
//
//	curl -fsS https://models.dev/api.json | go run ./catalog/cmd/snapshot catalog/snapshot
//
// It owns the list of built-in vendors. It does not know how the catalog is read or written. Start with [run].
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/providers/catalog"
)

// vendors are those for which gantry has providers.
var vendors = []string{
	"amazon-bedrock", "anthropic", "cerebras", "chutes", "cloudflare-ai-gateway", "cloudflare-workers-ai", "deepseek", "fireworks-ai",
	"google", "groq", "mistral", "moonshotai", "nvidia", "ollama-cloud", "openai", "openrouter", "togetherai", "vercel", "xai", "zai",
	"zhipuai",
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "snapshot:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: snapshot FOLDER < api.json")
	}
	b, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	all, err := catalog.ReadUpstream(b, vendors)
	if err != nil {
		return err
	}
	for _, p := range all {
		text, err := p.Write()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], p.ID+".json"), text, 0o644); err != nil {
			return err
		}
		fmt.Printf("%-24s %4d models\n", p.ID, len(p.Models))
	}
	return nil
}
