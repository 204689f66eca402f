package transcript

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/store"
)

// Limits of pages of occurrences. Compatible with codex.
const (
	defaultOccurrences = 50
	maxOccurrences     = 250
)

// Occurrences returns a page of the places where a text, which must not be empty, occurs in the messages of a thread, ignoring case, in
// order. The default limit is 50, the maximum 250. Of long messages, only the beginning is found.
func Occurrences(ctx context.Context, r Reader, thread event.ThreadID, text string, req Request) (protocol.ThreadSearchOccurrencesResponse, error) {
	out := protocol.ThreadSearchOccurrencesResponse{Data: []protocol.ThreadSearchOccurrence{}}
	limit := defaultOccurrences
	if req.Limit != nil {
		limit = int(min(max(*req.Limit, 1), maxOccurrences))
	}
	at, err := req.at(thread, ofOccurrences)
	if err != nil {
		return out, err
	}
	list := itemList{Reader: r, turns: map[event.TurnID]span{}}
	f := store.ItemFilter{Said: text}
	w := store.Window{At: at.Seq, Inclusive: at.Inclusive, Limit: min(limit+1, chunk)}
	for skip := at.Skip; ; skip = 0 {
		rows, err := r.Items(ctx, f, w)
		if err != nil {
			return out, err
		}
		found, err := list.read(ctx, rows)
		if err != nil {
			return out, err
		}
		for _, it := range found {
			places := occurrences(messageText(it.shape), text)
			for i := min(skip, len(places)); i < len(places); i++ {
				if len(out.Data) == limit {
					out.NextCursor = cursor{Thread: thread, Seq: it.first, Inclusive: true, Skip: i, Scope: scope{ofOccurrences}}.text()
					return out, nil
				}
				o := protocol.ThreadSearchOccurrence{TurnID: it.turn, ItemID: it.shape.Body.Header().ID}
				o.Snippet, o.SnippetMatchRange = places[i].snippet, places[i].within
				turn, err := list.turn(ctx, event.TurnID(it.turn))
				if err != nil {
					return out, err
				}
				o.TurnCursor = *cursor{Thread: thread, Seq: turn.FirstSeq, Inclusive: true, Scope: scope{ofTurns}}.text()
				out.Data = append(out.Data, o)
			}
			skip = 0
		}
		if len(rows) < w.Limit {
			return out, nil
		}
		w.At, w.Inclusive = rows[len(rows)-1].FirstSeq, false
	}
}

// messageText returns the text of a message.
func messageText(it protocol.ThreadItem) string {
	switch b := it.Body.(type) {
	case protocol.AgentMessageItem:
		return b.Text
	case protocol.UserMessageItem:
		var texts []string
		for _, part := range b.Content {
			if t, ok := part.Body.(protocol.TextInput); ok {
				texts = append(texts, t.Text)
			}
		}
		return strings.Join(texts, "\n")
	}
	return ""
}

// occurrence is a place where a text occurs.
type occurrence struct {
	snippet string
	within  protocol.ThreadSearchTextRange
}

// Characters of a message that a snippet has before and after an occurrence.
const (
	snippetBefore = 60
	snippetAfter  = 120
)

// occurrences returns the places where a text occurs in a message, ignoring case. They do not overlap.
func occurrences(message, text string) []occurrence {
	runes, wanted := []rune(message), lower([]rune(text))
	folded := lower(runes)
	var out []occurrence
	for at := 0; at+len(wanted) <= len(folded) && len(wanted) > 0; {
		if !slices.Equal(folded[at:at+len(wanted)], wanted) {
			at++
			continue
		}
		out = append(out, around(runes, at, at+len(wanted)))
		at += len(wanted)
	}
	return out
}

// lower returns characters in lower case. Their number stays the same.
func lower(runes []rune) []rune {
	out := make([]rune, len(runes))
	for i, r := range runes {
		out[i] = unicode.ToLower(r)
	}
	return out
}

// around returns the part of a message around an occurrence, in one line.
func around(runes []rune, from, to int) occurrence {
	begin, end := max(from-snippetBefore, 0), min(to+snippetAfter, len(runes))
	snippet := slices.Clone(runes[begin:end])
	for i, r := range snippet {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			snippet[i] = ' '
		}
	}
	from, to = from-begin, to-begin
	if begin > 0 {
		snippet = slices.Insert(snippet, 0, '…')
		from, to = from+1, to+1
	}
	if end < len(runes) {
		snippet = append(snippet, '…')
	}
	return occurrence{string(snippet), protocol.ThreadSearchTextRange{Start: units(snippet[:from]), End: units(snippet[:to])}}
}

// units returns the number of UTF-16 code units of characters.
func units(runes []rune) (n uint32) {
	for _, r := range runes {
		n += uint32(max(utf16.RuneLen(r), 1))
	}
	return n
}
