package orchestrate

import (
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// historySlack is how much longer than the policy a whole answer may be, so that a header beside an output that fills
// its budget costs nothing; codex-compatible.
const historySlack = 1.2

// maxVerbatim bounds the text of one result that may not be cut, as the contract announces.
const maxVerbatim = 4096

// shape is a result being cut for the model: once, here and nowhere else.
type shape struct {
	policy history.Policy
	out    llm.Parts
	used   int64 // bytes of text so far
	fixed  int64 // of these, verbatim
}

// modelContent cuts a result for the model. Parts for people only stay out.
func modelContent(parts []contract.Part, p history.Policy) llm.Parts {
	s := &shape{policy: p}
	for _, part := range parts {
		switch part := part.(type) {
		case *contract.TextPart:
			if part.Audience != contract.AudienceUser {
				s.text(part)
			}
		case *contract.JSONPart:
			if part.Audience != contract.AudienceUser {
				s.text(&contract.TextPart{Text: string(part.JSON)})
			}
		case *contract.MediaPart:
			if part.Audience != contract.AudienceUser {
				s.out = append(s.out, &llm.Media{
					MediaType: part.MediaType, Data: part.Data, Artifact: part.Artifact, Detail: part.Detail,
				})
			}
		case *contract.ArtifactPart:
			if part.Audience != contract.AudienceUser {
				a := part.Artifact
				s.add(fmt.Sprintf("[artifact %s, %s, %d bytes]", a.SHA256, a.MediaType, a.SizeBytes))
			}
		}
	}
	return s.out
}

func (s *shape) text(part *contract.TextPart) {
	switch part.Fit {
	case contract.FitVerbatim:
		t := history.Truncate(part.Text, history.Policy{Bytes: true, Limit: maxVerbatim - s.fixed})
		s.fixed += int64(len(t))
		s.add(t)
	case contract.FitBounded:
		s.add(history.Truncate(part.Text, s.policy.Scale(historySlack).Less(s.used)))
	default:
		p := s.policy
		if part.MaxTokens != nil {
			p = p.AtMostTokens(*part.MaxTokens)
		}
		room := s.policy.Scale(historySlack).Less(s.used)
		s.add(history.Fit(part.Text, p, room, history.Loss{
			Total: part.TotalBytes, Omitted: part.OmittedBytes, Announce: part.AnnounceTruncation,
		}))
	}
}

// add appends text. Adjacent texts become one: models and their vendors treat a list of texts and their sum alike.
func (s *shape) add(text string) {
	s.used += int64(len(text))
	if n := len(s.out); n > 0 {
		if t, ok := s.out[n-1].(*llm.Text); ok {
			t.Text += text
			return
		}
	}
	s.out = append(s.out, &llm.Text{Text: text})
}
