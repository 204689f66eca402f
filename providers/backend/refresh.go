package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gantry-agent/gantry/providers/catalog"
	"github.com/gantry-agent/gantry/sdk/provider"
)

const (
	maxCatalog     = 64 << 20
	catalogTimeout = 2 * time.Minute
)

func catalogPath(dir, vendor string) string { return filepath.Join(dir, "catalog-"+vendor+".json") }

// loadCatalog reads the catalog that was fetched last, or the built-in one.
func loadCatalog(vendor, dir string, logger hclog.Logger) *catalog.Provider {
	if vendor == "" {
		return nil
	}
	if dir != "" {
		b, err := os.ReadFile(catalogPath(dir, vendor))
		if err == nil {
			var p *catalog.Provider
			if p, err = catalog.Read(b); err == nil && len(p.Models) > 0 {
				return p
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			logger.Warn("the fetched catalog can't be read; using the built-in one", "err", err)
		}
	}
	p, _ := catalog.Embedded(vendor)
	return p
}

// refreshCommand returns the command that fetches the published catalog.
func refreshCommand(pick pickFunc) provider.Command {
	return provider.Command{
		Name: "refresh", Description: "Fetch the published catalogue of models.", SideEffects: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"}},"additionalProperties":false}`),
		Run: func(ctx context.Context, env provider.Env, input json.RawMessage) (json.RawMessage, error) {
			v, cfg, err := pick(env.Config, env)
			if err != nil {
				return nil, err
			}
			var in struct{ URL string }
			if len(input) > 0 {
				if err := json.Unmarshal(input, &in); err != nil {
					return nil, err
				}
			}
			if v.Catalog == "" {
				return json.Marshal(map[string]any{"message": v.Name + " is not in the published catalogue; nothing was fetched"})
			}
			n, err := refresh(ctx, v, cfg, env.CacheDir, cmp.Or(in.URL, catalog.URL))
			if err != nil {
				return nil, err
			}
			return json.Marshal(map[string]any{"vendor": v.Catalog, "models": n, "message": fmt.Sprintf("models of %s in the catalogue: %d", v.Name, n)})
		},
	}
}

func refresh(ctx context.Context, v Vendor, cfg *Config, dir, from string) (models int, err error) {
	if v.Catalog == "" {
		return 0, fmt.Errorf("%s has no list of models in the published catalogue", v.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	client, err := cfg.transport().Client()
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("fetch the catalogue: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("fetch the catalogue: %s answered %s", from, res.Status)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, maxCatalog+1))
	if err != nil {
		return 0, fmt.Errorf("fetch the catalogue: %w", err)
	}
	if len(b) > maxCatalog {
		return 0, fmt.Errorf("the catalogue at %s is larger than %d MiB", from, maxCatalog>>20)
	}
	all, err := catalog.ReadUpstream(b, []string{v.Catalog})
	if err != nil {
		return 0, err
	}
	text, err := all[0].Write()
	if err != nil {
		return 0, err
	}
	return len(all[0].Models), writeFile(catalogPath(dir, v.Catalog), text)
}

// writeFile replaces a file atomically.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".catalog-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
