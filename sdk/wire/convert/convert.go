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
	var out []B
	for i, v := range in {
		if w, ok := f(v); ok {
			if out == nil {
				out = make([]B, 0, len(in)-i)
			}
			out = append(out, w)
		}
	}
	return out
}

// notNil is f for [eachKnown]: it does not know what f converts to nil.
func notNil[A any, B comparable](f func(A) B) func(A) (B, bool) {
	return func(v A) (B, bool) {
		var none B
		w := f(v)
		return w, w != none
	}
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

// eachValue maps the values of a map; an empty one is nil, as it comes from the wire.
func eachValue[A, B any](in map[string]A, f func(A) B) map[string]B {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]B, len(in))
	for k, v := range in {
		out[text(k)] = f(v)
	}
	return out
}

func textMap(m map[string]string) map[string]string { return eachValue(m, text) }

func metadataToProto(m map[string]json.RawMessage) map[string][]byte {
	return eachValue(m, func(v json.RawMessage) []byte { return v })
}

func metadataFromProto(p map[string][]byte) map[string]json.RawMessage { return eachValue(p, raw) }
