// Package convert translates between the generated types of the contract and the Go types that people program against.
//
// It owns: that translation, in both directions, total: every value of one side has a value on the other. It must not
// know: connections, policy, defaults, who sends what to whom.
//
// What this version doesn't know is treated as the contract says: enum values become their zero, kinds of items, parts of
// results and events are nil, which readers skip; an unknown effect becomes [contract.UnknownEffect], because policy must see that
// there is one. Only an unknown part of a conversation is an error: leaving it out would change what the model is asked.
// Strings that are no UTF-8, which the wire refuses, get replacement characters.
//
// Start with [ManifestToProto] and [CallEventFromProto]; each type has one pair of functions, named after the Go type.
// Types of sdk/llm whose names exist in sdk/contract too begin with LLM. generated.go holds what follows from the names and
// types of fields: after a change of the contract, run make generate, which says what it cannot match (sdk/internal/convertgen
// has the table). The other files hold the kinds of oneofs, errors and lists that need a decision.
package convert

import (
	"encoding/json"
	"strings"
)

// text makes s fit for a string field.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(in []string) []string { return each(in, text) }

// each maps a slice; an empty one is nil, as it comes from the wire.
func each[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// eachKnown maps a slice and leaves out what f doesn't know.
func eachKnown[A, B any](in []A, f func(A) (B, bool)) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, 0, len(in))
	for _, v := range in {
		if w, ok := f(v); ok {
			out = append(out, w)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// enum casts between the two forms of an enumeration whose values agree. Values outside become 0.
func enum[B, A ~int32 | ~int](v, last A) B {
	if v < 0 || v > last {
		return 0
	}
	return B(v)
}

// raw keeps an empty JSON value nil.
func raw(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

func textMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[text(k)] = text(v)
	}
	return out
}

func metadataToProto[M ~map[string]json.RawMessage](m M) map[string][]byte {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string][]byte, len(m))
	for k, v := range m {
		out[text(k)] = v
	}
	return out
}

func metadataFromProto(p map[string][]byte) map[string]json.RawMessage {
	if len(p) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(p))
	for k, v := range p {
		out[k] = raw(v)
	}
	return out
}
