package backend

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gantry-agent/gantry/sdk/llm"
)

// keptMedia limits the cached content. The next request of a thread contains the same images again.
const keptMedia = 32 << 20

// media fetches content that a request only refers to.
type media struct {
	fetch func(ctx context.Context, digest string) ([]byte, error)

	mu    sync.Mutex
	kept  map[string][]byte
	order []string // digests, oldest first
	size  int
}

func newMedia(fetch func(ctx context.Context, digest string) ([]byte, error)) *media {
	return &media{fetch: fetch, kept: map[string][]byte{}}
}

// resolve returns messages in which all media have their content. Unchanged parts are shared with the given messages.
func (m *media) resolve(ctx context.Context, messages []llm.Message) ([]llm.Message, error) {
	var out []llm.Message
	for i, msg := range messages {
		parts, err := m.parts(ctx, msg.Parts)
		if err != nil {
			return nil, err
		}
		if parts == nil {
			continue
		}
		if out == nil {
			out = slices.Clone(messages)
		}
		out[i].Parts = parts
	}
	if out == nil {
		return messages, nil
	}
	return out, nil
}

// parts returns nil if nothing changes.
func (m *media) parts(ctx context.Context, parts []llm.Part) ([]llm.Part, error) {
	var out []llm.Part
	set := func(i int, p llm.Part) {
		if out == nil {
			out = slices.Clone(parts)
		}
		out[i] = p
	}
	for i, p := range parts {
		switch p := p.(type) {
		case *llm.Media:
			if p.Artifact == "" {
				continue
			}
			data, err := m.get(ctx, p.Artifact)
			if err != nil {
				return nil, &llm.Error{
					Code: llm.ErrInvalidRequest, Message: fmt.Sprintf("an attachment of the conversation can't be read: %v", err),
					Next: "it may have been deleted; continue in a new thread",
				}
			}
			whole := *p
			whole.Artifact, whole.Data = "", data
			set(i, &whole)
		case *llm.ToolResult:
			content, err := m.parts(ctx, p.Content)
			if err != nil {
				return nil, err
			}
			if content != nil {
				whole := *p
				whole.Content = content
				set(i, &whole)
			}
		}
	}
	return out, nil
}

func (m *media) get(ctx context.Context, digest string) ([]byte, error) {
	m.mu.Lock()
	data, ok := m.kept[digest]
	m.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := m.fetch(ctx, digest)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, twice := m.kept[digest]; twice || len(data) > keptMedia {
		return data, nil
	}
	m.kept[digest] = data
	m.order = append(m.order, digest)
	for m.size += len(data); m.size > keptMedia; m.order = m.order[1:] {
		m.size -= len(m.kept[m.order[0]])
		delete(m.kept, m.order[0])
	}
	return data, nil
}
