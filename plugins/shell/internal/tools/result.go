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
	// defaultMaxTokens is the most tokens of output that a model gets when it does not ask for another number.
	defaultMaxTokens = 10_000
	// defaultInline is the contract's limit of a result part where the host names none.
	defaultInline = 1 << 20
	// textMargin is what the line about missing output may take.
	textMargin = 64
)

// header is what a model must see of a command, whatever becomes of its output.
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

// render returns the parts of a result and, for a call that a program made, the same as an object.
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
		Output: out.Fit(int(limit / 2)).Text()} // escaping makes it longer
	if h.exited {
		object.ExitCode = &h.code
	} else {
		object.Session = &h.session
	}
	b, err := json.Marshal(object)
	if err != nil { // numbers and strings only
		panic("tools: marshal result: " + err.Error())
	}
	return parts, b
}

// body is the output as the host may cut it: at most limit bytes of text, of which the model gets so many tokens.
func body(out output.Output, limit, tokens int64) *contract.TextPart {
	p := &contract.TextPart{Fit: contract.FitTruncatable, MaxTokens: &tokens, AnnounceTruncation: true}
	// All of it; without room for the line about what is missing; as bytes that are no characters, which take three as text.
	for _, room := range []int64{limit, limit - textMargin, (limit - textMargin) / 3} {
		cut := out.Fit(int(min(max(room, 0), math.MaxInt32)))
		if p.Text = cut.Text(); cut.Omitted > 0 {
			p.TotalBytes, p.OmittedBytes = cut.Total(), cut.Omitted
			if int64(len(cut.Head)+len(cut.Tail)) > 4*tokens {
				// The host cuts the middle out and says how much was missing there before. The line would be cut, too.
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
	return int64(min(*asked, math.MaxInt64/4)) // the host counts bytes, four for a token
}
