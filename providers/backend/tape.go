package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/gantry-agent/gantry/providers/cassette"
	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// tape is the cassette of a block's settings record and replay. All connections to the service share it.
type tape struct {
	opened sync.Once
	err    error
	around func(http.RoundTripper) http.RoundTripper // nil: neither records nor replays
	warn   func(text string)                         // set before the first request
}

// replays reports whether requests are answered from a cassette. With CI=true nothing is recorded, so the cassette must exist.
func (c *Config) replays() bool { return c.Replay != "" || c.Record != "" && os.Getenv("CI") == "true" }

// open prepares recording or replay, once.
func (t *tape) open(c *Config) error {
	t.opened.Do(func() { t.err = t.prepare(c) })
	return t.err
}

func (t *tape) prepare(c *Config) error {
	attribute, path := "replay", c.Replay
	switch {
	case c.Record != "" && c.Replay != "":
		return configblock.Invalid("record and replay exclude each other: keep one of them", contract.Name("replay"))
	case c.Record != "":
		attribute, path = "record", c.Record
	case path == "":
		return nil
	}
	invalid := func(format string, args ...any) error {
		return configblock.Invalid(fmt.Sprintf(format, args...), contract.Name(attribute))
	}
	if !filepath.IsAbs(path) {
		return invalid("the path %q is relative, but the provider runs in another folder: use an absolute path", path)
	}
	if !c.replays() {
		r, err := cassette.NewRecorder(cassette.RecorderConfig{
			Path: path, Environ: os.Environ(), Warn: func(text string) { t.warn(text) },
		})
		if err != nil {
			return invalid("can't append to the recording: %v; use another file, or delete this one", err)
		}
		t.around = r.Around
		return nil
	}
	recorded, err := cassette.Load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && attribute == "record":
		return invalid("the recording %s does not exist, and none is created if CI=true: record it elsewhere", path)
	case errors.Is(err, fs.ErrNotExist):
		return invalid("the recording %s does not exist: create it with record = %q", path, path)
	case err != nil:
		return invalid("the recording can't be replayed: %v", err)
	}
	t.around = cassette.NewPlayer(cassette.PlayerConfig{Name: path, Cassette: recorded, InOrder: c.ReplayMatch == "order"}).Instead
	return nil
}

// taped returns the transport with recording or replay. The tape must be open.
func (c *Config) taped() route.Transport {
	out := c.transport()
	out.Around = c.tape.around
	if c.replays() {
		out.Proxy, out.CAFile = "none", "" // nothing is sent, so proxy and certificates are irrelevant
	}
	return out
}
