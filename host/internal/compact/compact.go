// Package compact makes a conversation shorter: what a summary is asked with, and what is left of a history beside it.
//
// It owns: the texts of the question and of the summary, which of the user's words stay, the order of what is left, and what
// goes first when even the question is too long. It must not know: when a conversation is compacted, which model is asked and
// how, who stores the result.
//
// Start with [Replace]. Everything here is a function of its arguments.
package compact

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// keptTokens is how much of the user's own words stays, newest first; codex-compatible.
const keptTokens = 20_000

// keptMail is how much of what other agents wrote stays beside it, newest first: it may be the task itself, and never takes the place
// of what a person said.
const keptMail = 10_000

// keptImages is how many of the user's images stay, newest first: a task is often about what they show.
const keptImages = 4

//go:embed prompt.md
var prompt string

// Prompt asks for the summary, in the words of the user's configuration or, where it has none, in ours. It is never part of the
// history.
func Prompt(own string) llm.Message {
	if strings.TrimSpace(own) == "" {
		own = prompt
	}
	return text(own)
}

// intro tells the reader of a summary what it is. Summaries that are stored already keep theirs: the marker tells them, not
// these words.
const intro = "<" + history.SummaryMarker + ">\n" +
	"The conversation up to here was longer than fits, so the model that worked on it wrote this account of it. Commands, " +
	"files and sessions are as it left them. Go on from here: rely on what is known, check what has to be true before you act " +
	"on it, and do not do again what is done.\n\n"

const outro = "\n</" + history.SummaryMarker + ">"

// Missing stands in the place of a summary that no model gave.
const Missing = "(There is no account: the model gave an empty one twice. The user's words above are complete; look at the files and " +
	"processes to find out what has been done.)"

// Summary is the message that carries a summary.
func Summary(account string) llm.Message {
	return text(intro + strings.TrimSpace(account) + outro)
}

func text(s string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: s}}}
}

// Replace is what takes the place of a history: the user's own words and mail of other agents, as far as there is room, what every
// conversation begins with (initial) before the last of them, and the account at the end. Nothing else stays: no call, no output, no context that
// has been told since, no earlier account.
func Replace(old, initial []llm.Message, account string) []llm.Message {
	kept := words(old)
	last := max(len(kept)-1, 0)
	out := make([]llm.Message, 0, len(kept)+len(initial)+1)
	out = append(out, kept[:last]...)
	out = append(out, initial...)
	out = append(out, kept[last:]...)
	return append(out, Summary(account))
}

// words are the user's own messages and the mail of other agents, newest first until there is no room; the one that does not fit
// loses its middle.
func words(ms []llm.Message) []llm.Message {
	own, mail := room{tokens: keptTokens, images: keptImages}, room{tokens: keptMail}
	var out []llm.Message
	for _, m := range slices.Backward(ms) {
		if own.tokens <= 0 {
			break
		}
		switch {
		case history.FromUser(m):
			out = append(out, own.take(m))
		case history.IsMail(m) && mail.tokens > 0:
			out = append(out, mail.take(m))
		}
	}
	slices.Reverse(out)
	return out
}

// room is what is left for the user's words.
type room struct{ tokens, images int64 }

// What stands for what the user attached and is not kept.
const (
	noImage = "[an image that the user sent here is left out]"
	noMedia = "[a file that the user sent here is left out]"
)

// take returns what of a message stays. Its text goes before its images.
func (r *room) take(m llm.Message) llm.Message {
	var said int64
	for _, p := range m.Parts {
		if t, ok := p.(*llm.Text); ok {
			said += int64(len(t.Text))
		}
	}
	if n := history.Tokens(said); n > r.tokens {
		cut := history.Truncate(m.Text(), history.Policy{Limit: r.tokens})
		r.tokens = 0
		return llm.Message{ID: m.ID, Role: m.Role, Parts: []llm.Part{&llm.Text{Text: cut}}, Metadata: m.Metadata}
	} else {
		r.tokens -= n
	}
	out := m
	out.Parts = make([]llm.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		if media, ok := p.(*llm.Media); ok {
			p = r.media(media)
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

func (r *room) media(m *llm.Media) llm.Part {
	if !strings.HasPrefix(m.MediaType, "image/") {
		return &llm.Text{Text: noMedia}
	}
	cost := history.Estimate([]llm.Message{{Role: llm.RoleUser, Parts: []llm.Part{m}}})
	if r.images == 0 || cost > r.tokens {
		return &llm.Text{Text: noImage}
	}
	r.images--
	r.tokens -= cost
	return m
}

// gently is how many steps take one item each, when a question is too long; every further one takes twice as many as the one
// before, so that a vendor is not asked a thousand times.
const gently = 8

// Trimmed is what is asked about after n refusals for its length: the oldest items are left out, each with its counterpart.
// ok is false when there was nothing more to leave out.
func Trimmed(ms []llm.Message, n int) (rest []llm.Message, ok bool) {
	before, drop, step := 0, 0, 1
	for i := range n {
		if i >= gently {
			step *= 2
		}
		before, drop = drop, min(drop+step, len(ms)+1)
	}
	rest, dropped := history.DropOldest(ms, drop)
	return rest, n == 0 || dropped > before
}
