package vendors

import (
	"embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// The schemas come from the types that the vendors publish; schema/generate.py writes them.
//
//go:embed schema/*.json
var schemas embed.FS

// load reads a vendor's schema, once for all the tests of a program: the largest one takes a quarter of a second.
func load(name string) (*jsonschema.Resolved, error) {
	read, ok := readers[name]
	if !ok {
		return nil, fmt.Errorf("no schema %q", name)
	}
	return read()
}

var readers = map[string]func() (*jsonschema.Resolved, error){
	"anthropic-messages": once("anthropic-messages"), "bedrock-converse": once("bedrock-converse"), "deepseek-chat": once("deepseek-chat"),
	"gemini": once("gemini"), "ollama-chat": once("ollama-chat"), "openai-chat": once("openai-chat"), "openai-responses": once("openai-responses"),
}

func once(name string) func() (*jsonschema.Resolved, error) {
	return sync.OnceValues(func() (*jsonschema.Resolved, error) { return resolve(name) })
}

func resolve(name string) (*jsonschema.Resolved, error) {
	b, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	return s.Resolve(nil)
}

// maxComplaint bounds what is shown of a validator's words, which go through every variant of a union.
const maxComplaint = 3000

// validate holds a body against a vendor's schema.
func validate(schema *jsonschema.Resolved, body any) error {
	if err := schema.Validate(body); err != nil {
		text := err.Error()
		if len(text) > maxComplaint {
			text = text[:maxComplaint] + " ..."
		}
		return fmt.Errorf("the body is not what the vendor publishes: %s", text)
	}
	return nil
}
