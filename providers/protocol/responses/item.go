package responses

import (
	"encoding/json"
	"strconv"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// Types of items that are handled here. Other types that end with "_call" are tools that the vendor runs.
const (
	typeMessage      = "message"
	typeReasoning    = "reasoning"
	typeFunctionCall = "function_call"
	typeCustomCall   = "custom_tool_call"
	typeCompaction   = "compaction"
)

// item is an item of the response, as far as it has arrived.
type item struct {
	key         string // the name of its blocks and its call
	id          string // the vendor's; may be empty
	kind        string
	call        string // call id
	begun, done bool
	told        map[part]bool // parts that were streamed, at least partly
	meta        protocol.Meta // of its blocks

	// of a reasoning item
	block    part   // the current part
	blockKey string // empty: nothing was emitted yet
}

// part is a part of an item: of a message's content, or of the summary or content of reasoning.
type part struct {
	content bool
	index   int
}

// wireItem has the fields of the items that are handled here.
type wireItem struct {
	Type             string     `json:"type"`
	ID               string     `json:"id"`
	CallID           string     `json:"call_id"`
	Name             string     `json:"name"`
	Namespace        string     `json:"namespace"`
	Arguments        string     `json:"arguments"`
	Input            string     `json:"input"`
	Status           string     `json:"status"`
	Phase            string     `json:"phase"`
	Execution        string     `json:"execution"`
	EncryptedContent string     `json:"encrypted_content"`
	Summary          []wirePart `json:"summary"`
	Content          []wirePart `json:"content"`
}

// cutOff reports whether a call is incomplete, so that it must not be executed.
func (w *wireItem) cutOff() bool {
	isCall := w.Type == typeFunctionCall || w.Type == typeCustomCall
	return isCall && (w.Status == "incomplete" || w.Status == "in_progress")
}

type wirePart struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Refusal     string            `json:"refusal"`
	Annotations []json.RawMessage `json:"annotations"`
}

func (p *wirePart) words() string {
	if p.Type == "refusal" {
		return p.Refusal
	}
	return p.Text
}

// announce returns the item that a frame refers to, creating it if necessary. If the type or call ID differs, it is another item:
// some proxies use the same ID for all items of a response.
func (d *decoder) announce(index int, w *wireItem) *item {
	same := func(it *item) bool {
		return it != nil && it.kind == w.Type && (it.call == "" || w.CallID == "" || it.call == w.CallID)
	}
	it := d.at[index]
	if same(it) && (!it.done || it.id == w.ID) {
		return it
	}
	if it = d.items[w.ID]; w.ID != "" && same(it) {
		if index >= 0 {
			d.at[index] = it
		}
		return it
	}
	it = &item{key: w.ID, id: w.ID, kind: w.Type, call: w.CallID, told: map[part]bool{}}
	if it.key == "" {
		it.key = "item"
	}
	for base, n := it.key, 2; d.items[it.key] != nil; n++ {
		it.key = base + "#" + strconv.Itoa(n)
	}
	d.items[it.key] = it
	d.order = append(d.order, it)
	if index >= 0 {
		d.at[index] = it
	}
	return it
}

// find returns the open item of a kind that a delta belongs to, or nil.
func (d *decoder) find(kind string) (*item, error) {
	if d.frame.ItemID == "" {
		return nil, protocol.Garbled(d.frame.Type + " is missing item_id")
	}
	for _, it := range [...]*item{d.at[d.frame.OutputIndex], d.items[d.frame.ItemID]} {
		if it != nil && it.kind == kind && !it.done {
			return it, nil
		}
	}
	return nil, nil
}

func (d *decoder) itemAdded(dst []llm.Event) ([]llm.Event, error) {
	w, err := d.decodeItem(d.frame.Item)
	if w == nil || err != nil {
		return dst, err
	}
	return d.begin(dst, d.announce(d.frame.OutputIndex, w), w), nil
}

func (d *decoder) itemDone(dst []llm.Event) ([]llm.Event, error) {
	w, err := d.decodeItem(d.frame.Item)
	if w == nil || err != nil {
		return dst, err
	}
	return d.end(dst, d.announce(d.frame.OutputIndex, w), w, d.frame.Item)
}

// decodeItem decodes an item. It returns nil for an unknown type, which may have any structure.
func (d *decoder) decodeItem(raw json.RawMessage) (*wireItem, error) {
	w := &wireItem{}
	err := json.Unmarshal(raw, w)
	switch w.Type {
	case typeMessage, typeReasoning, typeFunctionCall, typeCustomCall, typeCompaction:
		if err != nil {
			return nil, protocol.Garbled(d.frame.Type + ": " + err.Error())
		}
		return w, nil
	}
	if isHosted(w.Type) || w.Type == typeSearchOutput { // their fields have other types and are decoded elsewhere
		return w, nil
	}
	return nil, nil
}

// begin emits the start of an item.
func (d *decoder) begin(dst []llm.Event, it *item, w *wireItem) []llm.Event {
	if it.begun || it.done {
		return dst
	}
	it.begun = true
	dst = d.life.Start(dst)
	if it.id != "" {
		it.meta = d.r.Stamped(protocol.Meta{"itemId": it.id})
	}
	switch it.kind {
	case typeMessage:
		dst = d.life.CloseAll(dst, llm.BlockText)
		it.meta = messageMeta(it.meta, w)
	case typeReasoning:
		dst = d.think(dst, it, part{})
	case typeFunctionCall, typeCustomCall:
		dst = d.startCall(dst, it, w)
	}
	return dst
}

// end emits the rest of a complete item. An item that was not announced is emitted completely.
func (d *decoder) end(dst []llm.Event, it *item, w *wireItem, raw json.RawMessage) ([]llm.Event, error) {
	if it.done {
		return dst, nil
	}
	dst = d.begin(dst, it, w)
	it.done = true
	if w.ID != "" { // it may have changed; the last one belongs to the encrypted content
		it.meta = d.r.Stamped(with(it.meta, "itemId", w.ID))
	}
	switch {
	case it.kind == typeMessage:
		return d.endMessage(dst, it, w), nil
	case it.kind == typeReasoning:
		return d.endThought(dst, it, w), nil
	case it.kind == typeFunctionCall, it.kind == typeCustomCall:
		return d.endCall(dst, it, w)
	case it.kind == typeCompaction:
		return d.compacted(dst, it, w), nil
	case w.clientSearch():
		return d.searched(dst, it, raw), nil
	case it.kind == typeSearchOutput:
		return d.searchedThere(dst, it, raw), nil
	case isHosted(it.kind):
		return d.hosted(dst, it, raw), nil
	}
	return dst, nil
}

// with returns a copy of m with an additional key. Events share their metadata, so it must not be modified in place.
func with(m protocol.Meta, key string, value any) protocol.Meta {
	out := protocol.Meta{key: value}
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}
