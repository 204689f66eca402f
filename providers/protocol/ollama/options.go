package ollama

import (
	"encoding/json"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// OptionsKey is the key of this format's options among a request's provider options. Those under the request's own namespace
// override them.
const OptionsKey = "ollama"

// Options are the vendor's own settings of a request, under the vendor's names.
type Options struct {
	Runner
	KeepAlive json.RawMessage `json:"keep_alive,omitempty"` // "5m", or seconds; -1: forever
	Think     json.RawMessage `json:"think,omitempty"`      // true, false, or a degree; overrides the request's effort
	Format    json.RawMessage `json:"format,omitempty"`     // "json", or a schema; overrides the request's
	// Truncate lets the server truncate a prompt that is too long, and Shift lets it discard the beginning while it responds. Both
	// are off by default.
	Truncate *bool `json:"truncate,omitempty"`
	Shift    *bool `json:"shift,omitempty"`
}

// Runner are settings for loading a model, and settings that only this server has.
type Runner struct {
	NumCtx        *int64   `json:"num_ctx,omitempty"` // the context in tokens; unset: the server chooses depending on its memory
	NumKeep       *int64   `json:"num_keep,omitempty"`
	NumBatch      *int64   `json:"num_batch,omitempty"`
	NumGPU        *int64   `json:"num_gpu,omitempty"`
	MainGPU       *int64   `json:"main_gpu,omitempty"`
	NumThread     *int64   `json:"num_thread,omitempty"`
	UseMMap       *bool    `json:"use_mmap,omitempty"`
	MinP          *float64 `json:"min_p,omitempty"`
	TypicalP      *float64 `json:"typical_p,omitempty"`
	RepeatLastN   *int64   `json:"repeat_last_n,omitempty"`
	RepeatPenalty *float64 `json:"repeat_penalty,omitempty"`
}

func readOptions(r *protocol.Request) (Options, error) {
	var o Options
	if err := protocol.ReadOptions(r, OptionsKey, &o); err != nil {
		return o, err
	}
	if o.NumCtx != nil && *o.NumCtx <= 0 {
		return o, protocol.Invalid("set it to the wanted size in tokens", "provider options: num_ctx is %d", *o.NumCtx)
	}
	for _, f := range []struct {
		name  string
		value json.RawMessage
		kinds string
		next  string
	}{
		{"think", o.Think, `tf"`, `true, false, or a degree such as "high"`},
		{"keep_alive", o.KeepAlive, `"-0123456789`, `a duration such as "10m", or seconds`},
		{"format", o.Format, `"{`, `"json", or a schema`},
	} {
		if len(f.value) > 0 && !strings.ContainsRune(f.kinds, rune(f.value[0])) {
			return o, protocol.Invalid("it takes "+f.next, "provider options: %s is %s", f.name, f.value)
		}
	}
	return o, nil
}
