// Package table lists the vendors that speak OpenAI's chat format, with what is special about each: addresses, variables,
// deviations. It is data; what a user configures goes on top.
//
// It owns: the rows, and the rules by which one model of a vendor differs from the others. It must not know: how a request
// is made or sent, what a user configured.
//
// Start with [Lookup] and [For].
package table

import (
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Row is one vendor.
type Row struct {
	ID   string // its name in configuration, and the key of its metadata
	Name string // for people
	// BaseURL is where its API is. Places stand in it in braces, for the user to fill in.
	BaseURL string
	Places  []string
	// KeyVariable is the environment variable that people keep its key in; Keyless vendors have none.
	KeyVariable string
	Keyless     bool
	KeyHeader   string            // header that takes the key, as bearer; empty: authorization
	Headers     map[string]string // of each request
	// CacheKeyHeader takes the key of a request's prompt cache, so that a thread meets the same machine again.
	CacheKeyHeader string
	Catalog        string // its name in the catalogue of models; empty: it has none there
	// Compat is what holds for all of its models. [For] knows what holds for one.
	Compat protocol.Compat

	model func(model string, c *protocol.Compat)
}

// Lookup finds a vendor. The row is the caller's own.
func Lookup(id string) (Row, bool) {
	list := rows()
	i := slices.IndexFunc(list, func(r Row) bool { return r.ID == id })
	if i < 0 {
		return Row{}, false
	}
	return list[i], true
}

// IDs lists all vendors in alphabetical order.
func IDs() []string {
	list := rows()
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	slices.Sort(ids)
	return ids
}

// For is what is special about a model at a vendor. A vendor that is not in the table gets what its models' families are
// known for. The result is the caller's own.
func For(vendor, model string) protocol.Compat {
	row, _ := Lookup(vendor)
	c := row.Compat
	byFamily(model, &c)
	if row.model != nil {
		row.model(model, &c)
	}
	return c
}
