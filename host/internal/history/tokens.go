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

// Constants of the estimate; codex-compatible.
const (
	imageBytes  = 7_373  // size of an image that vendors scale down
	tilePixels  = 32     // side of a tile, in pixels; an image in its original size counts by tiles
	maxTiles    = 10_000 // upper limit
	sealedFrame = 650    // how much longer encrypted reasoning is than its content
)

// audioBytesPerToken is our own estimate: vendors count 10 to 32 tokens per second, and a second of speech has 8 to 16 kB, so it
// is rather too high than too low.
const audioBytesPerToken = 500

// Estimate estimates the tokens of messages that no provider has counted: a quarter of the bytes of their JSON. Images count as
// vendors count them; encrypted reasoning and content count by their content.
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
	if err != nil { // invalid metadata; the sum is an estimate anyway
		return extra
	}
	return int64(len(b)) + extra
}

// plainParts removes from parts what does not count by its length, and returns what that counts as.
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

// mediaBytes returns the estimated size of media; ok is false if they count by their length.
func mediaBytes(m *llm.Media) (n int64, ok bool) {
	switch {
	case isImage(m):
		return pictureBytes(m), true
	case isAudio(m):
		return audioTokens(m) * bytesPerToken, true
	}
	return 0, false
}

// audioTokens returns the estimated tokens of audio. Audio given by reference counts as 0: its length is unknown.
// AudioTokens estimates the tokens of n bytes of audio, rounded up.
func AudioTokens(n int64) int64 { return (n + audioBytesPerToken - 1) / audioBytesPerToken }

func audioTokens(m *llm.Media) int64 {
	n := int64(len(m.Data))
	if head, payload, ok := strings.Cut(m.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		n = int64(base64.StdEncoding.DecodedLen(len(payload)))
	}
	return AudioTokens(n)
}

func withoutData(m *llm.Media) *llm.Media {
	c := *m
	c.Data = nil
	if head, _, ok := strings.Cut(c.URL, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		c.URL = head + ";base64,"
	}
	return &c
}

// pictureBytes returns the estimated size of an image. One that is sent in its original size counts by its tiles, if they are
// known.
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

// sealedBytes returns the size of encrypted reasoning.
func sealedBytes(r *llm.Reasoning) int64 {
	var n int64
	for _, v := range r.Metadata {
		n += max(int64(len(v))*3/4-sealedFrame, 0)
	}
	return n
}

// sealedBefore returns the tokens of encrypted reasoning before the user's last message. Vendors pass it to the model but do not
// report it.
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
