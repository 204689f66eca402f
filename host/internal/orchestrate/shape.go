package orchestrate

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// historySlack is the factor by which a whole result may exceed the policy, so that a header in addition to an output that fills the
// budget is not cut; codex-compatible.
const historySlack = 1.2

// markers is what the last markers of a result take, in bytes: that of the text that is cut last, and that of the texts without room.
const markers = 64

// maxVerbatim bounds the text of one result that must not be truncated, in bytes; the contract documents it.
const maxVerbatim = 4096

// shape truncates a result for the model. It is the only place that does.
type shape struct {
	policy  history.Policy
	out     llm.Parts
	inline  int64 // bound of one inline medium, in bytes; 0: none
	shown   int   // media so far
	used    int64 // bytes of text so far
	fixed   int64 // of these, verbatim
	omitted int   // texts without any room left
	unseen  int   // media beyond maxMedia
	cut     cut
}

// cut describes the truncation of a result's truncatable texts.
type cut struct {
	whole []string // all of the texts, complete
	some  bool     // at least one was truncated
	lost  int64    // bytes that the plugin had already dropped
}

// modelContent returns a result as the model sees it: truncated, and without parts for people. inline bounds media that are not
// artifacts.
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
		s.add("") // a result needs at least one part
	}
	return s.out, s.cut
}

// compact returns JSON without insignificant space; invalid JSON is returned unchanged.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// maxMedia bounds the media of one result; no vendor accepts as many in a request.
const maxMedia = 100

func (s *shape) media(part *contract.MediaPart) {
	s.shown++
	switch {
	case s.shown > maxMedia:
		s.unseen++
	case s.inline > 0 && int64(len(part.Data)) > s.inline:
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: fmt.Sprintf(
			"[%s of %d bytes left out: inline content is limited to %d bytes, larger content must be an artifact]", part.MediaType, len(part.Data), s.inline)})
	default:
		s.out = append(s.out, &llm.Media{MediaType: part.MediaType, Data: part.Data, Artifact: part.Artifact, Detail: part.Detail})
	}
}

// sealed passes on encrypted content, which only its vendor's models can read, completely or not at all.
func (s *shape) sealed(part *contract.SealedPart) {
	s.shown++
	switch {
	case s.shown > maxMedia:
		s.unseen++
	case part.Namespace == "" || part.Data == "":
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: "[encrypted content left out: it is empty, or its plugin does not say whose models can read it]"})
	case s.inline > 0 && int64(len(part.Data)) > s.inline:
		s.text(&contract.TextPart{Fit: contract.FitBounded, Text: fmt.Sprintf(
			"[encrypted content of %d bytes left out: inline content is limited to %d bytes]", len(part.Data), s.inline)})
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
	truncatable := part.Fit != contract.FitBounded && part.Fit != contract.FitVerbatim
	if truncatable {
		s.cut.whole = append(s.cut.whole, part.Text)
		s.cut.lost += int64(part.OmittedBytes)
	}
	// Once the budget is used up, each further text would cost a marker, and there may be any number of them.
	room := s.policy.Scale(historySlack).Less(s.used + min(markers, s.policy.Limit/100))
	if s.used > 0 && room.Limit <= 0 {
		s.omitted++
		s.cut.some = s.cut.some || truncatable
		return
	}
	switch part.Fit {
	case contract.FitBounded, contract.FitVerbatim:
		s.add(history.Truncate(part.Text, room))
	default:
		p := s.policy
		if part.MaxTokens != nil {
			p = p.AtMostTokens(*part.MaxTokens)
		}
		fitted := history.Fit(part.Text, p, room, history.Loss{
			Total: part.TotalBytes, Omitted: part.OmittedBytes, Announce: part.AnnounceTruncation,
		})
		s.cut.some = s.cut.some || fitted != part.Text
		s.add(fitted)
	}
}

// add appends text. Adjacent texts are joined, which makes no difference to models.
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
