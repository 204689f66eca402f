// Package smoke_test asks real vendors. It costs a fraction of a cent for each and needs the network, so it runs only with
// `make smoke`, and only those vendors whose key is in the environment; the others are named as skipped.
//
// It owns: one cheap model of each vendor, and the one task that all of them get. It must not know: any wire format.
//
// Start with [TestSmoke]. SMOKE_MODEL_OPENAI=NAME asks another model of a vendor; SMOKE_BASE_URL and SMOKE_MODEL ask one of a
// server that speaks OpenAI's chat format.
package smoke_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agent/gantry/e2e/rig"
	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/providers/table"
)

// vendor is one who can be asked.
type vendor struct {
	name    string // and the label of its block
	source  string
	key     string // variable that has it; empty: it needs none
	model   string // a cheap one that takes tools
	catalog string // its name in the catalogue; empty: it has none there
	block   string // further lines of its block
}

// vendors lists them: those with a program of their own, and those of the table that the compatible one asks.
func vendors(t *testing.T) []vendor {
	list := []vendor{
		{name: "openai", source: "openai", key: "OPENAI_API_KEY", model: "gpt-5.4-nano", catalog: "openai"},
		{name: "anthropic", source: "anthropic", key: "ANTHROPIC_API_KEY", model: "claude-haiku-4-5", catalog: "anthropic"},
		{name: "google", source: "google", key: "GEMINI_API_KEY", model: "gemini-3.1-flash-lite", catalog: "google"},
		{name: "bedrock", source: "bedrock", key: "AWS_BEARER_TOKEN_BEDROCK", model: "us.amazon.nova-lite-v1:0", catalog: "amazon-bedrock",
			block: fmt.Sprintf("  region = %q\n", cmp.Or(os.Getenv("AWS_REGION"), "us-east-1"))},
		{name: "ollama", source: "ollama"},
	}
	for _, v := range [][2]string{
		{"cerebras", "gpt-oss-120b"}, {"deepseek", "deepseek-flash"}, {"fireworks", "accounts/fireworks/models/gpt-oss-120b"},
		{"groq", "openai/gpt-oss-20b"}, {"mistral", "mistral-small-2506"}, {"moonshot", "kimi-k2.6"}, {"openrouter", "openai/gpt-5-nano"},
		{"together", "openai/gpt-oss-20b"}, {"vercel", "openai/gpt-5-nano"}, {"xai", "grok-4.3"}, {"zai", "glm-4.7-flash"},
	} {
		row, ok := table.Lookup(v[0])
		if !ok {
			t.Fatalf("the table has no vendor %q", v[0])
		}
		list = append(list, vendor{name: row.ID, source: "compatible", key: row.KeyVariable, model: v[1], catalog: row.Catalog})
	}
	return list
}

// TestModels: the models that are asked for are there, as far as the catalogue knows. It needs no key.
func TestModels(t *testing.T) {
	for _, v := range vendors(t) {
		if v.catalog == "" {
			continue
		}
		p, ok := catalog.Embedded(v.catalog)
		if !ok {
			t.Errorf("%s: there is no catalogue %q", v.name, v.catalog)
			continue
		}
		if m, match := p.Find(v.model); match != catalog.MatchExact || !m.Capabilities.Tools.Supported {
			t.Errorf("%s: the catalogue has no model %q that takes tools: choose another one", v.name, v.model)
		}
	}
}

// TestSmoke lets each vendor's model read a file with a tool and say what is in it.
func TestSmoke(t *testing.T) {
	if os.Getenv("GANTRY_SMOKE") == "" {
		t.Skip("real vendors are asked by `make smoke` only")
	}
	var mu sync.Mutex
	var skipped []string
	skip := func(t *testing.T, why string) {
		mu.Lock()
		defer mu.Unlock()
		skipped = append(skipped, why)
		t.Skip("NOT ASKED: " + why)
	}
	list := vendors(t)
	if url := os.Getenv("SMOKE_BASE_URL"); url != "" {
		list = append(list, vendor{name: "own", source: "compatible", model: os.Getenv("SMOKE_MODEL"), block: fmt.Sprintf("  base_url = %q\n", url)})
	}
	t.Cleanup(func() {
		slices.Sort(skipped)
		t.Logf("%d of %d vendors were not asked:\n  %s", len(skipped), len(list), strings.Join(skipped, "\n  "))
	})
	for _, v := range list {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			if v.key != "" && os.Getenv(v.key) == "" {
				skip(t, v.name+": "+v.key+" is not set")
			}
			if v.name == "ollama" {
				host := cmp.Or(os.Getenv("OLLAMA_HOST"), "127.0.0.1:11434")
				if !strings.Contains(host, "://") {
					host = "http://" + host
				}
				var why string
				if v.model, why = localModel(t, host); v.model == "" {
					skip(t, v.name+": "+why)
				}
				v.block = fmt.Sprintf("  base_url = %q\n", host)
			}
			v.model = cmp.Or(os.Getenv("SMOKE_MODEL_"+strings.ToUpper(v.name)), v.model)
			ask(t, v)
		})
	}
}

// localModel is the first model of an Ollama server, or why there is none.
func localModel(t *testing.T, host string) (model, why string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/api/tags", nil)
	if err != nil {
		return "", err.Error()
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "no server runs at " + host
	}
	defer res.Body.Close()
	var tags struct{ Models []struct{ Name string } }
	if err := json.NewDecoder(res.Body).Decode(&tags); err != nil || len(tags.Models) == 0 {
		return "", "the server at " + host + " has no models; `ollama pull qwen3:4b` gets one"
	}
	return tags.Models[0].Name, ""
}

func ask(t *testing.T, v vendor) {
	r := rig.New(t, "")
	block := v.block
	if v.key != "" {
		block += fmt.Sprintf("  api_key = env(%q)\n", v.key)
	}
	r.Config(fmt.Sprintf("\nprovider %q {\n  source = %q\n%s}\n", v.name, "builtin/"+v.source, block))
	const word = "heliotrope-7431"
	r.Write("word.txt", word+"\n")
	res := r.Gantry("exec", "--events", "--model", v.name+"/"+v.model, "Read the file word.txt in the working folder with a command, and answer with exactly what it holds.")
	var ran, said bool
	var used struct{ Input, Output int64 }
	for _, e := range rig.Events(t, res.Stdout) {
		switch e.Kind {
		case "item.completed":
			var b struct {
				Item struct{ Type, Text string }
			}
			e.Into(t, &b)
			ran = ran || b.Item.Type == "command"
			said = said || b.Item.Type == "agent_message" && strings.Contains(b.Item.Text, word)
		case "turn.ended":
			var b struct {
				TurnUsage struct{ Input, Output int64 }
				Error     *struct{ Message, Next string }
			}
			e.Into(t, &b)
			if used = b.TurnUsage; b.Error != nil {
				t.Errorf("%s\nNext: %s", b.Error.Message, b.Error.Next)
			}
		}
	}
	if res.Code != 0 || !ran || !said || used.Input == 0 || used.Output == 0 {
		t.Errorf("exit %d, ran a command: %v, said the word: %v, tokens %+v\n%s\n%s", res.Code, ran, said, used, res.Stdout, res.Stderr)
	}
	if key := os.Getenv(v.key); v.key != "" && strings.Contains(res.Stdout+res.Stderr, key) {
		t.Errorf("the key in %s was printed", v.key)
	}
	t.Logf("%s: %d tokens in, %d out", v.model, used.Input, used.Output)
}
