package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
	"github.com/gantry-agent/gantry/sdk/wire/convert"
)

// toolKey identifies a tool.
type toolKey struct{ namespace, name string }

// tools is the current set of tools, which is replaced as a whole.
type tools struct {
	mu struct {
		sync.Mutex
		byName  map[toolKey]Tool
		valid   []contract.Descriptor // of the last set that replaced another, if it had no errors
		watched *gantryv1.WatchResponse
		changed chan struct{} // closed and replaced with the set
	}
}

// newTools returns a set with the tools of the manifest, which have been validated.
func newTools(list []Tool) (*tools, error) {
	ts := &tools{}
	ts.mu.changed = make(chan struct{})
	return ts, ts.set(list, nil)
}

// replace replaces the current set and returns the errors of the new one. Invalid descriptors are sent as well: the host validates
// each of them, leaves out the invalid ones, and warns the user.
func (ts *tools) replace(list []Tool, sources []contract.Source) error {
	var errs []error
	var usable []Tool
	var descriptors []contract.Descriptor
	for _, t := range list {
		if err := t.check(); err != nil && (t.run == nil || t.descriptor.Validate() == nil) { // the host would accept it, but it can't be run
			errs = append(errs, err)
			continue
		}
		usable, descriptors = append(usable, t), append(descriptors, t.descriptor)
	}
	set := contract.ToolSet{Tools: descriptors, Sources: sources}
	for i := range descriptors {
		errs = append(errs, set.CheckSource(&descriptors[i]))
	}
	ts.mu.Lock()
	valid := ts.mu.valid
	ts.mu.Unlock()
	invalid := contract.ValidateTools(descriptors, valid...)
	if valid = nil; invalid == nil {
		valid = descriptors
	}
	ts.mu.Lock()
	ts.mu.valid = valid
	ts.mu.Unlock()
	return errors.Join(append(errs, invalid, ts.set(usable, sources))...)
}

func (ts *tools) set(list []Tool, sources []contract.Source) error {
	byName := make(map[toolKey]Tool, len(list))
	set := &contract.ToolSet{Sources: slices.Clone(sources)}
	for _, t := range list {
		key := toolKey{t.descriptor.Namespace, t.descriptor.Name}
		if _, twice := byName[key]; !twice { // the host also uses the first one
			byName[key] = t
		}
		set.Tools = append(set.Tools, t.descriptor)
	}
	msg := convert.ToolSetToProto(set)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		return fmt.Errorf("marshal tool set: %w", err)
	}
	sum := sha256.Sum256(b)
	msg.Revision = hex.EncodeToString(sum[:8])

	ts.mu.Lock()
	defer ts.mu.Unlock()
	if old := ts.mu.watched; old != nil && old.GetRevision() == msg.GetRevision() {
		ts.mu.byName = byName // unchanged for the host, but the handlers may be different
		return nil
	}
	ts.mu.byName, ts.mu.watched = byName, msg
	close(ts.mu.changed)
	ts.mu.changed = make(chan struct{})
	return nil
}

func (ts *tools) find(namespace, name string) (Tool, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t, ok := ts.mu.byName[toolKey{namespace, name}]
	return t, ok
}

// current returns the set, and a channel that is closed when the set changes.
func (ts *tools) current() (*gantryv1.WatchResponse, <-chan struct{}) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.mu.watched, ts.mu.changed
}
