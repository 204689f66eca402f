package setup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config"
)

// found is a model that can be used here.
type found struct{ block, label, model, what string }

// server is a model server that usually runs on one's own machine.
type server struct{ name, label, base, block string }

func servers() []server {
	return []server{
		{"Ollama", "ollama", "http://127.0.0.1:11434", "provider \"ollama\" {\n  source = \"builtin/ollama\"\n}\n"},
		{"llama.cpp", "llamacpp", "http://127.0.0.1:8080", "provider \"llamacpp\" {\n  source = \"builtin/compatible\"\n}\n"},
		{"LM Studio", "lmstudio", "http://127.0.0.1:1234", "provider \"lmstudio\" {\n  source = \"builtin/compatible\"\n}\n"},
		{"vLLM", "vllm", "http://127.0.0.1:8000", "provider \"vllm\" {\n  source = \"builtin/compatible\"\n}\n"},
	}
}

// look finds a model to begin with: a vendor whose key is in the environment, otherwise a server on this machine.
func look(ctx context.Context, lookupEnv func(string) (string, bool), servers []server) (found, bool) {
	if v, ok := config.Keyed(lookupEnv); ok {
		return found{v.Block(), v.Label, v.Model, "the key in " + v.Variable}, true
	}
	answers := make([]string, len(servers))
	done := make(chan struct{})
	for i, s := range servers {
		go func() { // ends after the timeout of a request
			answers[i] = s.first(ctx)
			done <- struct{}{}
		}()
	}
	for range servers {
		<-done
	}
	i := slices.IndexFunc(answers, func(model string) bool { return model != "" })
	if i < 0 {
		return found{}, false
	}
	s := servers[i]
	return found{s.block, s.label, answers[i], fmt.Sprintf("%s at %s", s.name, s.base)}, true
}

// first returns the first model that a server lists; empty: it does not run, or has none.
func (s server) first(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/v1/models", nil)
	if err != nil {
		return ""
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy: the server is on this machine
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct{ ID string }
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list) != nil {
		return ""
	}
	for _, m := range list.Data {
		if m.ID != "" && !strings.ContainsAny(m.ID, "\"\\\n$%") { // it becomes a string in HCL
			return m.ID
		}
	}
	return ""
}
