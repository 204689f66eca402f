package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	_ "image/gif"  // the sizes of GIF,
	_ "image/jpeg" // JPEG
	_ "image/png"  // and PNG can be read
	"strings"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// Figures of the estimate; codex-compatible.
const (
	imageBytes  = 7_373  // what an image counts as that vendors scale down
	tilePixels  = 32     // an image in its own size counts by tiles of so many pixels a side,
	maxTiles    = 10_000 // up to so many
	sealedFrame = 650    // what encrypted thoughts are longer than what they hold
)

// audioBytesPerToken is what audio counts by. Ours: vendors count 10 to 32 tokens a second, and a second of what is usual for
// speech takes 8 to 16 kB, so that this is rather too much than too little.
const audioBytesPerToken = 500

// Estimate guesses the tokens of messages that no provider has counted yet: a quarter of the bytes of their JSON. Images
// count by what vendors make of them, encrypted thoughts and content by what they hold.
func Estimate(ms []llm.Message) int64 {
	var n int64
	for _, m := range ms {
		n += Tokens(messageBytes(m))
	}
	return n
}

func messageBytes(m llm.Message) int64 {
	plain, extra := plainParts(m.Parts)
	if len(plain) == 0 && len(m.Parts) > 0 {
		return extra
	}
	b, err := json.Marshal(llm.Message{Role: m.Role, Parts: plain})
	if err != nil { // metadata that is no JSON; the sum is a guess anyway
		return extra
	}
	return int64(len(b)) + extra
}

// plainParts takes out of parts what does not count by its length, and says what it counts as.
func plainParts(parts []llm.Part) (plain []llm.Part, extra int64) {
	for _, p := range parts {
		switch q := p.(type) {
		case *llm.Reasoning:
			if len(q.Metadata) > 0 {
				extra += int64(len(q.Text)) + sealedBytes(q)
				continue
			}
		case *llm.Media:
			n, ok := mediaBytes(q)
			if !ok {
				break
			}
			extra += n
			p = withoutData(q)
			if q.Data != nil {
				extra += int64(len(`,"data":""`))
			}
		case *llm.Sealed:
			extra += (int64(len(q.Data))*9 + 15) / 16
			p = &llm.Sealed{Namespace: q.Namespace}
		case *llm.ToolResult:
			r := *q
			var inside int64
			r.Content, inside = plainParts(q.Content)
			extra += inside
			p = &r
		}
		plain = append(plain, p)
	}
	return plain, extra
}

// mediaBytes is what the content of media counts as; ok is false where it counts by its length.
func mediaBytes(m *llm.Media) (n int64, ok bool) {
	switch {
	case isImage(m):
		return pictureBytes(m), true
	case isAudio(m):
		return audioTokens(m) * bytesPerToken, true
	}
	return 0, false
}

// audioTokens is what audio counts as. What is only named counts as nothing: nobody here knows how long it is.
func audioTokens(m *llm.Media) int64 {
	n := int64(len(m.Data))
	if head, payload, ok := strings.Cut(m.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		n = int64(base64.StdEncoding.DecodedLen(len(payload)))
	}
	return (n + audioBytesPerToken - 1) / audioBytesPerToken
}

func withoutData(m *llm.Media) *llm.Media {
	c := *m
	c.Data = nil
	if head, _, ok := strings.Cut(c.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		c.URL = head + ";base64,"
	}
	return &c
}

// pictureBytes is what an image counts as. One that is sent in its own size counts by its tiles, where that is known.
func pictureBytes(m *llm.Media) int64 {
	if m.Detail != "original" {
		return imageBytes
	}
	size, _, err := image.DecodeConfig(bytes.NewReader(m.Data))
	if err != nil {
		return imageBytes
	}
	tiles := int64((size.Width+tilePixels-1)/tilePixels) * int64((size.Height+tilePixels-1)/tilePixels)
	return min(tiles, maxTiles) * bytesPerToken
}

// sealedBytes is what encrypted thoughts hold.
func sealedBytes(r *llm.Reasoning) int64 {
	var n int64
	for _, v := range r.Metadata {
		n += max(int64(len(v))*3/4-sealedFrame, 0)
	}
	return n
}

// sealedBefore is the tokens of encrypted thoughts before the user's last word: vendors give them back to the model and leave
// them out of what they count.
func sealedBefore(ms []llm.Message) int64 {
	var sum, before int64
	for _, m := range ms {
		if m.Role == llm.RoleUser {
			before = sum
		}
		for _, p := range m.Parts {
			if r, ok := p.(*llm.Reasoning); ok {
				sum += sealedBytes(r)
			}
		}
	}
	return Tokens(before)
}
