// Package convert converts between the generated types of the contract and the Go types of sdk/contract and sdk/llm.
//
// It owns: the conversion in both directions, which is total: each value of one side corresponds to a value of the other. It must
// not know: connections, policy, defaults, or the purpose of a message.
//
// Values that this version doesn't know are handled as specified by the contract. Unknown enum values become 0. Unknown kinds of items,
// parts of results and events become nil and are skipped. An unknown effect becomes [contract.UnknownEffect], so that policy can
// take it into account. Only an unknown part of a conversation is an error, because omitting it would change the request. Invalid
// UTF-8, which the wire doesn't allow, is replaced.
//
// Start with [ManifestToProto] and [CallEventFromProto]. Each type has a pair of functions named after the Go type; for types of
// sdk/llm whose names also exist in sdk/contract, with the prefix LLM. generated.go contains the conversions that follow from the
// names and types of fields. After a change of the contract, run make generate, which reports fields that it can't match; the table is
// in sdk/internal/convertgen. The other files contain oneofs, errors and lists that are converted by hand.
package convert

import (
	"encoding/json"
	"strings"
)

// text makes s valid for a string field.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(in []string) []string { return each(in, text) }

// each applies f to the elements of a slice. The result is nil if it is empty, as for received messages.
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

// eachKnown applies f to the elements of a slice, leaving out those for which f returns false.
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

// notNil adapts f for [eachKnown]: elements that f converts to nil are left out.
func notNil[A any, B comparable](f func(A) B) func(A) (B, bool) {
	return func(v A) (B, bool) {
		var none B
		w := f(v)
		return w, w != none
	}
}

// enum converts between two types with the same enumeration values. Values greater than last become 0.
func enum[B, A ~int32 | ~int](v, last A) B {
	if v < 0 || v > last {
		return 0
	}
	return B(v)
}

// raw returns nil for an empty JSON value.
func raw(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

// eachValue applies f to the values of a map. The result is nil if it is empty, as for received messages.
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
