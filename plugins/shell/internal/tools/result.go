package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/shell/internal/output"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

const (
	// defaultMaxTokens is the maximum number of tokens of output, unless the model requests another limit.
	defaultMaxTokens = 10_000
	// defaultInline is the contract's default for the size of a result part.
	defaultInline = 1 << 20
	// textMargin is the maximum length of the line about omitted output.
	textMargin = 64
)

// header is the part of a result that the model must see, regardless of the truncation of the output.
type header struct {
	wall    time.Duration
	exited  bool
	code    int
	session int
	tokens  int64 // of all output
}

func (h header) text(chunk string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Chunk ID: %s\nWall time: %.4f seconds\n", chunk, h.wall.Seconds())
	if h.exited {
		fmt.Fprintf(&b, "Process exited with code %d\n", h.code)
	} else {
		fmt.Fprintf(&b, "Process running with session ID %d\n", h.session)
	}
	fmt.Fprintf(&b, "Original token count: %d\nOutput:\n", h.tokens)
	return b.String()
}

// render returns the parts of a result and, for a nested call, the structured result.
func (h header) render(c *tool.Call, out output.Output, maxTokens *uint64) ([]contract.Part, json.RawMessage) {
	chunk := fmt.Sprintf("%06x", rand.IntN(1<<24))
	parts := []contract.Part{&contract.TextPart{Text: h.text(chunk), Fit: contract.FitVerbatim}}
	limit := c.Caps().MaxInlineBytes
	if limit <= 0 {
		limit = defaultInline
	}
	if out.Total() > 0 {
		parts = append(parts, body(out, limit, tokenLimit(maxTokens)))
	}
	if len(c.Parents()) == 0 {
		return parts, nil
	}
	object := struct {
		ChunkID  string  `json:"chunk_id"`
		Wall     float64 `json:"wall_time_seconds"`
		ExitCode *int    `json:"exit_code,omitempty"`
		Session  *int    `json:"session_id,omitempty"`
		Tokens   int64   `json:"original_token_count"`
		Output   string  `json:"output"`
	}{ChunkID: chunk, Wall: h.wall.Seconds(), Tokens: h.tokens,
		Output: out.Fit(int(limit / 2)).Text()} // half of the limit, because JSON escapes make it longer
	if h.exited {
		object.ExitCode = &h.code
	} else {
		object.Session = &h.session
	}
	b, err := json.Marshal(object)
	if err != nil { // impossible for numbers and strings
		panic("tools: marshal result: " + err.Error())
	}
	return parts, b
}

// body returns the output as text of at most limit bytes, of which the model gets at most the given number of tokens.
func body(out output.Output, limit, tokens int64) *contract.TextPart {
	p := &contract.TextPart{Fit: contract.FitTruncatable, MaxTokens: &tokens, AnnounceTruncation: true}
	// Try all of the output; then leave room for the line about omitted output; then assume invalid bytes, each of which becomes
	// three bytes of text.
	for _, room := range []int64{limit, limit - textMargin, (limit - textMargin) / 3} {
		cut := out.Fit(int(min(max(room, 0), math.MaxInt32)))
		if p.Text = cut.Text(); cut.Omitted > 0 {
			p.TotalBytes, p.OmittedBytes = cut.Total(), cut.Omitted
			if int64(len(cut.Head)+len(cut.Tail)) > 4*tokens {
				// The host will cut out the middle, including this line, and report the total omission.
				p.Text = cut.Joined()
			}
		}
		if int64(len(p.Text)) <= limit {
			break
		}
	}
	return p
}

func tokenLimit(asked *uint64) int64 {
	if asked == nil {
		return defaultMaxTokens
	}
	return int64(min(*asked, math.MaxInt64/4)) // the host multiplies by four bytes per token
}
