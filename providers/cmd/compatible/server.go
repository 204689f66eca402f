package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/providers/backend"
	"github.com/gantry-agent/gantry/sdk/llm"
)

const (
	maxListing   = 16 << 20
	probeTimeout = 5 * time.Second
)

// server is a server that lists its models: vLLM, llama.cpp, LM Studio and similar ones.
type server struct {
	config *config
	base   string
}

// list asks for the models.
func (s *server) list(ctx context.Context) ([]string, error) {
	all, err := s.models(ctx)
	if err != nil {
		return nil, &llm.Error{
			Code: llm.ErrTransport, Message: fmt.Sprintf("the server at %s does not list its models: %v", s.base, err),
			Next: "start the server, or correct base_url in the provider's block",
		}
	}
	var out []string
	for _, m := range all {
		out = append(out, m.ID)
	}
	slices.Sort(out)
	return out, nil
}

type listed struct {
	ID string `json:"id"`
	// Names of the context window in various servers: vLLM, LM Studio, llama.cpp.
	MaxModelLen int64 `json:"max_model_len"`
	Loaded      int64 `json:"loaded_context_length"`
	MaxContext  int64 `json:"max_context_length"`
	Meta        struct {
		Train int64 `json:"n_ctx_train"`
	} `json:"meta"`
}

func (s *server) models(ctx context.Context) ([]listed, error) {
	var answer struct {
		Data []listed `json:"data"`
	}
	err := s.get(ctx, s.base+"/models", &answer)
	return slices.DeleteFunc(answer.Data, func(m listed) bool { return m.ID == "" }), err
}

// probe asks for the context window of a model: the loaded one, otherwise the maximum.
func (s *server) probe(ctx context.Context, model string) (backend.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var props struct {
		Settings struct {
			Context int64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	// llama.cpp reports it outside its API, and serves one model.
	if s.get(ctx, strings.TrimSuffix(s.base, "/v1")+"/props", &props) == nil && props.Settings.Context > 0 {
		return backend.Facts{Window: props.Settings.Context}, nil
	}
	all, err := s.models(ctx)
	if err != nil {
		return backend.Facts{}, err
	}
	i := slices.IndexFunc(all, func(m listed) bool { return m.ID == model })
	if i < 0 {
		return backend.Facts{}, fmt.Errorf("the server has no model %q", model)
	}
	m := all[i]
	for _, window := range []int64{m.Loaded, m.MaxModelLen, m.MaxContext, m.Meta.Train} {
		if window > 0 {
			return backend.Facts{Window: window}, nil
		}
	}
	return backend.Facts{}, nil
}

func (s *server) get(ctx context.Context, address string, into any) error {
	client, err := s.config.Client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if key, err := s.config.APIKey.Value(ctx); err == nil {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxListing+1))
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", res.Status)
	case len(b) > maxListing:
		return errors.New("its response is too long")
	}
	return json.Unmarshal(b, into)
}
