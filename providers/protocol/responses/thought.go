package responses

import (
	"strconv"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// A reasoning item becomes one block for each part of its summary. Vendors that show the reasoning itself send it as the item's
// content, which also becomes blocks, marked in their metadata so that they can be sent back in the same form.

// think makes p the current part. The block that the item's announcement opened is used for the first part.
func (d *decoder) think(dst []llm.Event, it *item, p part) []llm.Event {
	if it.blockKey != "" {
		behind := p.content == it.block.content && p.index < it.block.index // late text is appended to the open part
		if p == it.block || behind {
			return dst
		}
		if !it.told[it.block] && it.block.index == p.index {
			it.block = p
			return dst
		}
		dst = d.closeThought(dst, it, "")
	}
	it.block = p
	it.blockKey = it.key + ":" + strconv.Itoa(p.index)
	if p.content && len(it.told) > 0 {
		it.blockKey = it.key + ":content:" + strconv.Itoa(p.index)
	}
	return d.life.Open(dst, llm.BlockReasoning, it.blockKey, it.meta)
}

// closeThought ends the open block. encrypted is part of the last block of an item.
func (d *decoder) closeThought(dst []llm.Event, it *item, encrypted string) []llm.Event {
	meta := it.meta
	if it.block.content {
		meta = with(meta, "content", true)
	}
	if encrypted != "" {
		meta = d.r.Stamped(with(meta, "reasoningEncryptedContent", encrypted))
	}
	return d.life.Close(dst, llm.BlockReasoning, it.blockKey, meta)
}

func (d *decoder) tellThought(dst []llm.Event, it *item, p part, words string) []llm.Event {
	if words == "" {
		return dst
	}
	dst = d.think(dst, it, p)
	it.told[p], it.told[it.block] = true, true
	d.life.Raw = it.block.content
	return d.life.Delta(dst, llm.BlockReasoning, it.blockKey, words)
}

func (d *decoder) summaryPart(dst []llm.Event) ([]llm.Event, error) {
	it, err := d.find(typeReasoning)
	if it == nil || err != nil {
		return dst, err
	}
	return d.think(dst, it, part{false, d.frame.SummaryIndex}), nil
}

func (d *decoder) summaryDelta(dst []llm.Event) ([]llm.Event, error) {
	return d.thoughtText(dst, part{false, d.frame.SummaryIndex}, d.frame.Delta, false)
}

func (d *decoder) summaryDone(dst []llm.Event) ([]llm.Event, error) {
	return d.thoughtText(dst, part{false, d.frame.SummaryIndex}, d.frame.Text, true)
}

func (d *decoder) thoughtDelta(dst []llm.Event) ([]llm.Event, error) {
	return d.thoughtText(dst, part{true, d.frame.ContentIndex}, d.frame.Delta, false)
}

func (d *decoder) thoughtDone(dst []llm.Event) ([]llm.Event, error) {
	return d.thoughtText(dst, part{true, d.frame.ContentIndex}, d.frame.Text, true)
}

// thoughtText emits text of a part. If whole is set, it is the complete text, which is only emitted if nothing was streamed.
func (d *decoder) thoughtText(dst []llm.Event, p part, words string, whole bool) ([]llm.Event, error) {
	it, err := d.find(typeReasoning)
	if it == nil || err != nil || whole && it.told[p] {
		return dst, err
	}
	return d.tellThought(dst, it, p, words), nil
}

func (d *decoder) endThought(dst []llm.Event, it *item, w *wireItem) []llm.Event {
	dst = d.tellUntold(dst, it, false, w.Summary)
	dst = d.tellUntold(dst, it, true, w.Content)
	return d.closeThought(dst, it, w.EncryptedContent)
}

// tellUntold emits the parts of a finished item if none of their kind was streamed.
func (d *decoder) tellUntold(dst []llm.Event, it *item, content bool, parts []wirePart) []llm.Event {
	for p := range it.told {
		if p.content == content {
			return dst
		}
	}
	for i, p := range parts {
		dst = d.tellThought(dst, it, part{content, i}, p.Text)
	}
	return dst
}

// compacted stores the vendor's summary of the history as a thought without text.
func (d *decoder) compacted(dst []llm.Event, it *item, w *wireItem) []llm.Event {
	if w.EncryptedContent == "" {
		return dst
	}
	meta := d.r.Stamped(with(it.meta, "compaction", w.EncryptedContent))
	dst = d.life.Open(dst, llm.BlockReasoning, it.key, meta)
	return d.life.Close(dst, llm.BlockReasoning, it.key, nil)
}
