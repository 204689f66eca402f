package tools

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// The grants of a login.
const (
	authorizationCode = "authorization_code"
	clientCredentials = "client_credentials"
)

// hasToken reports whether the block has a token of its own, beside which there is no login.
func (s *Server) hasToken() bool {
	for name := range s.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return !s.BearerToken.IsZero()
}

// client returns the client for requests to the server and for its logins, which trusts ca_file. It is of use even if that can't be read.
func (s *Server) client(env *tool.Env) (*http.Client, error) {
	client := env.HTTPClient()
	if s.CAFile == "" {
		return client, nil
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return client, fmt.Errorf("ca_file can't be read: %w; next: correct it, or add the file to permissions { read } in the plugin's block", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities
	}
	if !pool.AppendCertsFromPEM(pem) {
		return client, fmt.Errorf("ca_file %s contains no certificate in PEM form", s.CAFile)
	}
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	return client, nil
}

// login returns how to log in to the server. env is nil if that is only checked.
func (s *Server) login(env *tool.Env, client *http.Client, version string) auth.Config {
	cfg := auth.Config{
		Name: s.Name, URL: s.URL, Client: client, Secrets: env, Version: version,
		Lease: func(ctx context.Context, name string, wait time.Duration) (func(), error) {
			l, err := env.Lease(ctx, name, wait)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		},
	}
	if o := s.OAuth; o != nil {
		cfg.ClientID, cfg.Scopes, cfg.NoRegistration, cfg.Machine = o.ClientID, o.Scopes, !o.Registration, o.Grant == clientCredentials
		if !o.ClientSecret.IsZero() {
			cfg.ClientSecret = o.ClientSecret.Value
		}
	}
	return cfg
}

// opener returns a function that opens a way to a server with an address.
func (p *mcpPlugin) opener(client *http.Client, e *entry) func(ctx context.Context) (server.Link, error) {
	b := e.block
	return func(ctx context.Context) (server.Link, error) {
		header := http.Header{}
		for name, value := range b.Headers {
			v, err := value.Value(ctx)
			if err != nil {
				return server.Link{}, fmt.Errorf("the header %s: %w", name, err)
			}
			if strings.TrimSpace(v) != "" { // a variable may be set to nothing
				header.Set(name, v)
			}
		}
		if !b.BearerToken.IsZero() {
			v, err := b.BearerToken.Value(ctx)
			if err != nil {
				return server.Link{}, fmt.Errorf("bearer_token: %w", err)
			}
			if strings.TrimSpace(v) == "" {
				return server.Link{}, errors.New("bearer_token is empty; next: set the variable or secret that it names")
			}
			header.Set("Authorization", "Bearer "+v)
		}
		life, end := context.WithCancel(context.WithoutCancel(ctx)) // the end of a session is told to the server
		h := transport.HTTP{URL: b.URL, SSE: b.Transport == "sse", Transport: client.Transport, UserAgent: "gantry/" + p.version, Header: header, Context: life}
		if e.auth != nil {
			h.OAuth = e.auth
		}
		t, err := h.New()
		if err != nil {
			end()
			return server.Link{}, err
		}
		return server.Link{Transport: t, Retry: true, Close: func() {
			end()
			client.CloseIdleConnections()
		}}, nil
	}
}
