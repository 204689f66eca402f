package registry

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/gantry-agent/gantry/sdk/contract"
)

// WishName is the tool by which a model asks for permissions ahead of the calls that need them. It is the host's own.
const WishName = "request_permissions"

var wishSchema = json.RawMessage(`{"additionalProperties":false,"properties":{` +
	`"permissions":{"additionalProperties":false,"properties":{` +
	`"file_system":{"additionalProperties":false,"properties":{` +
	`"read":{"description":"Files and folders to read, absolute paths.","items":{"type":"string"},"type":["array","null"]},` +
	`"write":{"description":"Folders to write, absolute paths. They have to exist.","items":{"type":"string"},"type":["array","null"]}},"type":["object","null"]},` +
	`"network":{"additionalProperties":false,"properties":{"enabled":{"type":["boolean","null"]}},"type":["object","null"]}},"type":"object"},` +
	`"environment_id":{"type":["string","null"]},` +
	`"reason":{"description":"One plain sentence to the user that says what it is for.","type":["string","null"]}},"required":["permissions"],"type":"object"}`)

const wishText = "Asks the user for permissions that the sandbox does not give: to read or write further folders, to reach the network. " +
	"What is granted holds for later calls, until the turn ends or as long as the thread runs; the answer says which. Ask for as little as the task needs."

// NewWish is that tool. Not offered: the model is not told of it, and still gets an answer where it remembers it.
func NewWish(offered bool) *Entry {
	exposure := contract.ExposureHidden
	if offered {
		exposure = contract.ExposureDirect
	}
	return &Entry{Wish: true, schema: own(wishSchema), Descriptor: contract.Descriptor{
		Name: WishName, Description: wishText, InputSchema: wishSchema, ReadOnly: true, Exposure: exposure,
	}}
}

// With is the catalogue with a further tool of the host's.
func (s *Snapshot) With(e *Entry) *Snapshot {
	out := *s
	out.byName = maps.Clone(s.byName)
	if out.byName == nil {
		out.byName = map[key]*Entry{}
	}
	out.byName[keyOf(e.Namespace, e.Name)] = e
	out.entries = append(slices.Clip(out.entries), e)
	return &out
}
