package orchestrate

import (
	"bytes"
	"encoding/json"
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
	policy  history.Policy
	out     llm.Parts
	inline  int64 // most bytes of one inline medium; 0: any
	shown   int   // media so far
	used    int64 // bytes of text so far
	fixed   int64 // of these, verbatim
	omitted int   // texts for which there was no room at all
	unseen  int   // media beyond the most
	cut     cut   // of what may be cut
}

// cut is what a model does not see of what may be cut.
type cut struct {
	whole []string // the texts as they came, those that were cut and those that were not
	some  bool     // of them were
	lost  int64    // bytes that were dropped before they came
}

// modelContent cuts a result for the model. Parts for people only stay out. inline bounds media that are not artifacts.
func modelContent(parts []contract.Part, p history.Policy, inline int64) (llm.Parts, cut) {
	s := &shape{policy: p, inline: inline}
	for _, part := range parts {
		switch part := part.(type) {
		case *contract.TextPart:
			if part.Audience != contract.AudienceUser {
				s.text(part)
			}
		case *contract.JSONPart:
			if part.Audience != contract.AudienceUser {
				s.text(&contract.TextPart{Text: compact(part.JSON)})
			}
		case *contract.MediaPart:
			if part.Audience != contract.AudienceUser {
				s.media(part)
			}
		case *contract.SealedPart:
			if part.Audience != contract.AudienceUser {
				s.sealed(part)
			}
		case *contract.ArtifactPart:
			if part.Audience != contract.AudienceUser {
				a := part.Artifact
				s.text(&contract.TextPart{Fit: contract.FitBounded,
					Text: fmt.Sprintf("[artifact %s, %s, %d bytes]", a.SHA256, a.MediaType, a.SizeBytes)})
			}
		}
	}
	if s.omitted > 0 {
		s.out = append(s.out, &llm.Text{Text: fmt.Sprintf("[omitted %d text items ...]", s.omitted)})
	}
	if s.unseen > 0 {
		s.out = append(s.out, &llm.Text{Text: fmt.Sprintf("[omitted %d items ...]", s.unseen)})
	}
	if len(s.out) == 0 {
		s.add("") // a result without a word is still a result
	}
	return s.out, s.cut
}

// compact is JSON as the model reads it; what is no JSON is text like any other.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// maxMedia is how many media one result may show the model; more than any vendor takes in a request.
const maxMedia = 100

func (s *shape) media(part *contract.MediaPart) {
	s.shown++
	switch {
	case s.shown > maxMedia:
		s.unseen++
	case s.inline > 0 && int64(len(part.Data)) > s.inline:
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: fmt.Sprintf(
			"[%s of %d bytes left out: inline content may have %d, larger content has to be an artifact]", part.MediaType, len(part.Data), s.inline)})
	default:
		s.out = append(s.out, &llm.Media{MediaType: part.MediaType, Data: part.Data, Artifact: part.Artifact, Detail: part.Detail})
	}
}

// sealed passes on what nobody here can read, whole: a piece of it is worth nothing.
func (s *shape) sealed(part *contract.SealedPart) {
	s.shown++
	switch {
	case s.shown > maxMedia:
		s.unseen++
	case part.Namespace == "" || part.Data == "":
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: "[encrypted content left out: its plugin does not say whose models can read it, or it is empty]"})
	case s.inline > 0 && int64(len(part.Data)) > s.inline:
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: fmt.Sprintf(
			"[encrypted content of %d bytes left out: inline content may have %d]", len(part.Data), s.inline)})
	default:
		s.out = append(s.out, &llm.Sealed{Namespace: part.Namespace, Data: part.Data})
	}
}

func (s *shape) text(part *contract.TextPart) {
	if part.Text == "" {
		return
	}
	if part.Fit == contract.FitVerbatim && s.fixed < maxVerbatim {
		t := history.Truncate(part.Text, history.Policy{Bytes: true, Limit: maxVerbatim - s.fixed})
		s.fixed += int64(len(t))
		s.add(t)
		return
	}
	able := part.Fit != contract.FitBounded && part.Fit != contract.FitVerbatim
	if able {
		s.cut.whole = append(s.cut.whole, part.Text)
		s.cut.lost += int64(part.OmittedBytes)
	}
	// Behind the budget each further text would cost a marker; there may be any number of them.
	if s.used > 0 && s.policy.Scale(historySlack).Less(s.used).Limit <= 0 {
		s.omitted++
		s.cut.some = s.cut.some || able
		return
	}
	switch part.Fit {
	case contract.FitBounded, contract.FitVerbatim:
		s.add(history.Truncate(part.Text, s.policy.Scale(historySlack).Less(s.used)))
	default:
		p := s.policy
		if part.MaxTokens != nil {
			p = p.AtMostTokens(*part.MaxTokens)
		}
		room := s.policy.Scale(historySlack).Less(s.used)
		fitted := history.Fit(part.Text, p, room, history.Loss{
			Total: part.TotalBytes, Omitted: part.OmittedBytes, Announce: part.AnnounceTruncation,
		})
		s.cut.some = s.cut.some || fitted != part.Text
		s.add(fitted)
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
