// Package compact shortens a conversation: it composes the request for a summary and the history that remains.
//
// It owns: the texts of the request and of the summary, which user messages are kept, the order of what remains, and what is
// dropped first if even the request is too long. It must not know: when a conversation is compacted, which model is asked and how,
// and who stores the result.
//
// Start with [Replace]. All functions are pure.
package compact

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/history"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// keptTokens is the limit of user messages that are kept, newest first. Compatible with codex.
const keptTokens = 20_000

// keptMail is the limit of messages from other agents that are kept in addition, newest first. They may be the task itself, and
// never displace a person's messages.
const keptMail = 10_000

// keptImages is the number of the user's images that are kept, newest first, because a task is often about them.
const keptImages = 4

//go:embed prompt.md
var prompt string

// Prompt returns the request for the summary: the user's configured text, or the default. It is never part of the history.
func Prompt(own string) llm.Message {
	if strings.TrimSpace(own) == "" {
		own = prompt
	}
	return text(own)
}

// intro explains a summary to its reader. Stored summaries keep their own intro: they are recognized by the marker.
const intro = "<" + history.SummaryMarker + ">\n" +
	"The conversation up to here was longer than fits, so the model that worked on it wrote this account of it. Commands, " +
	"files and sessions are as it left them. Go on from here: rely on what is known, check what has to be true before you act " +
	"on it, and do not do again what is done.\n\n"

const outro = "\n</" + history.SummaryMarker + ">"

// Missing replaces a summary that the model did not return.
const Missing = "(There is no account: the model gave an empty one twice. The user's words above are complete; look at the files and " +
	"processes to find out what has been done.)"

// Summary returns the message that contains a summary.
func Summary(account string) llm.Message {
	return text(intro + strings.TrimSpace(account) + outro)
}

func text(s string) llm.Message {
	return llm.Message{Role: llm.RoleUser, Parts: []llm.Part{&llm.Text{Text: s}}}
}

// Replace returns the history that replaces old: the user's messages and mail of other agents within the limits, the initial
// messages of every conversation before the last of them, and the summary at the end. Everything else is dropped: calls, outputs,
// context updates, and earlier summaries.
func Replace(old, initial []llm.Message, account string) []llm.Message {
	kept := words(old)
	last := max(len(kept)-1, 0)
	out := make([]llm.Message, 0, len(kept)+len(initial)+1)
	out = append(out, kept[:last]...)
	out = append(out, initial...)
	out = append(out, kept[last:]...)
	return append(out, Summary(account))
}

// words returns the user's messages and the mail of other agents, newest first, within the limits; the newest task by mail comes before all
// other mail, because it may be all that an agent is there for. The message that exceeds a limit loses its middle.
func words(ms []llm.Message) []llm.Message {
	own, mail := room{tokens: keptTokens, images: keptImages}, room{tokens: keptMail}
	newest := len(ms) - 1
	for newest >= 0 && !history.IsTask(ms[newest]) {
		newest--
	}
	var task llm.Message
	if newest >= 0 {
		task = mail.take(ms[newest])
	}
	var out []llm.Message
	for i, m := range slices.Backward(ms) {
		switch {
		case i == newest:
			out = append(out, task)
		case own.tokens <= 0:
		case history.FromUser(m):
			out = append(out, own.take(m))
		case history.IsMail(m) && mail.tokens > 0:
			out = append(out, mail.take(m))
		}
	}
	slices.Reverse(out)
	return out
}

// room is what remains of the limits.
type room struct{ tokens, images int64 }

// Placeholders for attachments that are not kept.
const (
	noImage = "[an image that the user sent here is left out]"
	noMedia = "[a file that the user sent here is left out]"
)

// take returns the part of a message that is kept. Text has priority over images.
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

// gently is the number of steps that drop one item each if a request is too long. Each further step drops twice as many as the one
// before, to limit the number of requests.
const gently = 8

// Trimmed returns the request after n refusals because of its length: without the oldest items and their counterparts. ok is false
// if nothing more can be dropped.
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
