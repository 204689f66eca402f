package bind

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/gantry-agent/gantry/config/hosts"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// Endpoint is the service of a URL that a block names.
type Endpoint struct {
	Host string // normalized
	Port uint16
	// Project says that the URL, or a part of its setting, comes from a project's file.
	Project bool
}

// ports are the schemes of endpoints and their default ports.
var ports = map[string]uint16{"http": 80, "https": 443, "ws": 80, "wss": 443}

// Endpoints returns the services that the block's settings name, according to its schema. Only settings that are endpoints are
// evaluated. Invalid and missing values, which [Block.Decode] reports, are left out.
func (b Block) Endpoints(s contract.ConfigBlock) []Endpoint {
	if s, any := onlyEndpoints(s); any {
		d := &decoder{Block: b, mode: Look, secrets: make(map[string]Secret)}
		d.block(s, b.pieces(), b.Header, "", b.Reserved)
		return d.endpoints
	}
	return nil
}

// onlyEndpoints returns the part of a schema that describes endpoints, and whether there are any.
func onlyEndpoints(s contract.ConfigBlock) (out contract.ConfigBlock, any bool) {
	for _, a := range s.Attributes {
		if a.Endpoint {
			out.Attributes = append(out.Attributes, a)
		}
	}
	for _, n := range s.Blocks {
		inner, has := onlyEndpoints(n.Block)
		if has {
			n.Block, n.MinItems = inner, 0
			out.Blocks = append(out.Blocks, n)
		}
	}
	return out, len(out.Attributes) > 0 || len(out.Blocks) > 0
}

// ofProject reports whether a part of a value comes from a project's file.
func ofProject(layers []setting) bool {
	return slices.ContainsFunc(layers, func(s setting) bool { return s.scope != nil && s.scope.OfProject() })
}

// endpoint checks and collects the URLs of an argument. A secret one is not shown in messages.
func (d *decoder) endpoint(a contract.ConfigAttribute, val cty.Value, last setting, project bool) bool {
	plain, marks := val.UnmarkDeepWithPaths()
	good := true
	collect := func(v cty.Value, path ...contract.Step) {
		if v.IsNull() || !v.IsKnown() || v.Type() != cty.String || v.AsString() == "" {
			return
		}
		e, err := parseEndpoint(v.AsString())
		if err == nil {
			e.Project = project
			d.endpoints = append(d.endpoints, e)
			return
		}
		good = false
		r := d.Header
		if last.expr != nil {
			r = expressionAt(last.expr, path)
		}
		detail := fmt.Sprintf("%q is not the URL of a service: %v.", v.AsString(), err)
		if a.Sensitive || len(marks) > 0 {
			detail = "It is not the URL of a service."
		}
		d.errorAt(r, fmt.Sprintf("invalid value for %q", a.Name), detail, `write one like "https://mcp.example.com/path"`)
	}
	if !plain.Type().IsCollectionType() {
		collect(plain)
		return good
	}
	i := int64(0)
	for it := plain.ElementIterator(); it.Next(); i++ {
		k, v := it.Element()
		if plain.Type().IsMapType() {
			collect(v, contract.Key(k.AsString()))
		} else {
			collect(v, contract.Index(i))
		}
	}
	return good
}

// parseEndpoint returns the service of a URL.
func parseEndpoint(text string) (Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Endpoint{}, fmt.Errorf("it can't be parsed")
	}
	port, ok := ports[u.Scheme]
	if !ok {
		return Endpoint{}, fmt.Errorf("its scheme is none of http, https, ws and wss")
	}
	e := Endpoint{Host: hosts.Normalize(u.Host), Port: port}
	if !hosts.Valid(e.Host) {
		return Endpoint{}, fmt.Errorf("it has no valid host")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Endpoint{}, fmt.Errorf("it has no valid port")
		}
		e.Port = uint16(n)
	}
	return e, nil
}
