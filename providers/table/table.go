// Package table lists the vendors that use OpenAI's chat format, with their peculiarities: addresses, variables, deviations. It
// only contains data; the user's configuration overrides it.
//
// It owns the rows, and the rules for a vendor's individual models. It does not know how a request is built or sent, or what the
// user configured.
//
// Start with [Lookup] and [For].
package table

import (
	"slices"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Row is a vendor.
type Row struct {
	ID   string // its name in the configuration, and the key of its metadata
	Name string // display name
	// BaseURL is the address of its API. Places in braces must be filled in by the user.
	BaseURL string
	Places  []string
	// KeyVariable is the environment variable that usually contains its key; Keyless vendors need none.
	KeyVariable string
	Keyless     bool
	KeyHeader   string            // header for the key, as a bearer token; empty: authorization
	Headers     map[string]string // of each request
	// CacheKeyHeader is the header for a request's cache key, which routes a thread to the same machine.
	CacheKeyHeader string
	Catalog        string // its name in the catalog of models; empty: not listed
	// Compat applies to all its models. [For] returns what applies to one of them.
	Compat protocol.Compat

	model func(model string, c *protocol.Compat)
}

// Lookup returns a vendor. The caller may modify the row.
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

// For returns the peculiarities of a vendor's model. For an unknown vendor, only those of the model's family apply. The caller may
// modify the result.
func For(vendor, model string) protocol.Compat {
	row, _ := Lookup(vendor)
	c := row.Compat
	byFamily(model, &c)
	if row.model != nil {
		row.model(model, &c)
	}
	return c
}
