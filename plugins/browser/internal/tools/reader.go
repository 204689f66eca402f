package tools

import (
	"bytes"
	"context"

	"github.com/gantry-agent/gantry/plugins/browser/internal/action"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// reader is whoever reads the results of a browser's calls.
type reader struct {
	revision string // of what it has of earlier results
	tokens   int    // that it reads of a result; 0: the default
}

// reads prepares for the result of a call. A reader that no longer has the earlier results gets whole states again.
func (r *running) reads(c *tool.Call) {
	now := reader{c.HistoryRevision(), int(c.Caps().MaxModelTokens)}
	if now.revision == "" || now.revision != r.reader.revision {
		r.Forget()
	}
	r.reader = now
}

// within returns a size of a state that its reader reads. 0 means the default.
func (r *running) within(tokens int) int {
	if most := r.reader.tokens; most > 0 && (tokens <= 0 || tokens > most) {
		return most
	}
	return tokens
}

// keep stores a picture for people, and returns what the item of the call shows.
func (r *running) keep(ctx context.Context, c *tool.Call, i action.Image) contract.ArtifactRef {
	ref, err := c.Artifact(ctx, "page.jpg", i.MediaType, bytes.NewReader(i.Data))
	if err != nil { // the model has it nevertheless
		c.Env().Logger.Warn("a picture of a page is not stored", "err", err)
	}
	return ref
}
