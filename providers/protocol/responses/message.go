package responses

import (
	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// messageMeta adds the metadata of a message item: whether it is a comment or the final answer, and its citations.
func messageMeta(meta protocol.Meta, w *wireItem) protocol.Meta {
	if w.Phase != "" {
		meta = with(meta, "phase", w.Phase)
	}
	// Citations refer to positions in the text of their part. The texts of a message are joined, so citations are only valid if
	// there is just one.
	if len(w.Content) == 1 && len(w.Content[0].Annotations) > 0 {
		meta = with(meta, "annotations", w.Content[0].Annotations)
	}
	return meta
}

func (d *decoder) textDelta(dst []llm.Event) ([]llm.Event, error) {
	it, err := d.find(typeMessage)
	if it == nil || err != nil {
		return dst, err
	}
	return d.say(dst, it, d.frame.ContentIndex, d.frame.Delta), nil
}

// textDone handles a stream that only contains the complete text.
func (d *decoder) textDone(dst []llm.Event) ([]llm.Event, error) {
	it, err := d.find(typeMessage)
	if it == nil || err != nil || it.told[part{true, d.frame.ContentIndex}] {
		return dst, err
	}
	words := d.frame.Text
	if words == "" {
		words = d.frame.Refusal
	}
	return d.say(dst, it, d.frame.ContentIndex, words), nil
}

func (d *decoder) say(dst []llm.Event, it *item, index int, words string) []llm.Event {
	if words == "" {
		return dst
	}
	it.told[part{true, index}] = true
	dst = d.life.Open(dst, llm.BlockText, it.key, it.meta)
	return d.life.Delta(dst, llm.BlockText, it.key, words)
}

func (d *decoder) endMessage(dst []llm.Event, it *item, w *wireItem) []llm.Event {
	it.meta = messageMeta(it.meta, w)
	if len(it.told) == 0 {
		for i, c := range w.Content {
			dst = d.say(dst, it, i, c.words())
		}
	}
	before := len(dst)
	dst = d.life.Close(dst, llm.BlockText, it.key, it.meta)
	if len(dst) == before || w.Phase != remark {
		return dst
	}
	if end, ok := dst[before].(llm.BlockEnd); ok {
		end.Remark = true
		dst[before] = end
	}
	return dst
}

// remark is the phase of a comment that precedes the final answer.
const remark = "commentary"
