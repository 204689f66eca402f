package plugintest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/sdk/contract"
	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// unknownAttribute is a name that no schema has.
const unknownAttribute = "gantry_plugintest_unknown"

var null = json.RawMessage("null")

// block renders the configuration like a host: with all attributes of the schema, with their defaults, and with handles for
// secrets.
func (k *kit) block() map[string]json.RawMessage {
	var given map[string]json.RawMessage
	if len(k.cfg.Config) > 0 {
		_ = json.Unmarshal(k.cfg.Config, &given) // checked by Validate
	}
	var schema contract.ConfigBlock
	if k.manifest != nil {
		schema = k.manifest.Config
	}
	return k.render(schema, given, "")
}

func (k *kit) render(b contract.ConfigBlock, given map[string]json.RawMessage, at string) map[string]json.RawMessage {
	out := maps.Clone(given)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	for _, a := range b.Attributes {
		v, there := given[a.Name]
		switch {
		case !there || isNull(v):
			v = null
			if len(a.Default) > 0 {
				v = a.Default
			}
		case a.Sensitive:
			var secret string
			if json.Unmarshal(v, &secret) == nil {
				v = mustJSON(map[string]string{"$secret": k.host.storeSecret(at+a.Name, secret)})
			}
		}
		out[a.Name] = v
	}
	for _, n := range b.Blocks {
		v, there := given[n.Name]
		if !there {
			out[n.Name] = null
			if n.MaxItems != 1 {
				out[n.Name] = json.RawMessage("[]")
			}
			continue
		}
		var one map[string]json.RawMessage
		var many []map[string]json.RawMessage
		switch {
		case json.Unmarshal(v, &one) == nil:
			if n.Process {
				one = k.declare(n, one)
			}
			out[n.Name] = mustJSON(k.render(n.Block, one, at+n.Name+"."))
		case json.Unmarshal(v, &many) == nil:
			for i := range many {
				if n.Process {
					many[i] = k.declare(n, many[i])
				}
				many[i] = k.render(n.Block, many[i], fmt.Sprintf("%s%s.%d.", at, n.Name, i))
			}
			out[n.Name] = mustJSON(many)
		}
	}
	return out
}

// declare remembers the process that a block declares, and returns the block as a host passes it.
func (k *kit) declare(n contract.ConfigNestedBlock, given map[string]json.RawMessage) map[string]json.RawMessage {
	var p gantryv1.SpawnRequest
	var command, label string
	_ = json.Unmarshal(given["command"], &command)
	_ = json.Unmarshal(given["args"], &p.Argv)
	_ = json.Unmarshal(given["env"], &p.Env)
	_ = json.Unmarshal(given["cwd"], &p.Cwd)
	labels := n.Labels
	if len(labels) == 1 {
		_ = json.Unmarshal(given[labels[0]], &label)
		labels = []string{label}
	}
	if command != "" {
		p.Argv = append([]string{command}, p.Argv...)
		k.host.Declare(contract.ProcessName(n.Name, labels...), &p)
	}
	out := maps.Clone(given)
	for _, name := range []string{"command", "args", "env", "cwd"} {
		if len(out[name]) == 0 {
			out[name] = null
		}
	}
	if len(p.Env) > 0 {
		out["env"] = mustJSON(slices.Sorted(maps.Keys(p.Env)))
	}
	delete(out, "sandbox")
	delete(out, "limits")
	return out
}

func isNull(v json.RawMessage) bool { return strings.TrimSpace(string(v)) == "null" }

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("plugintest: " + err.Error())
	}
	return b
}

// missingValues lists the required attributes that the configuration doesn't set.
func (k *kit) missingValues() []string {
	block := k.block()
	var out []string
	for _, a := range k.manifest.Config.Attributes {
		if a.Required && isNull(block[a.Name]) {
			out = append(out, a.Name)
		}
	}
	return out
}

// badBlock is a block with one error.
type badBlock struct {
	what  string
	name  string // the attribute or block with the error
	block map[string]json.RawMessage
}

// maxBadBlocks bounds the time that a check takes with a large schema.
const maxBadBlocks = 24

// wrongTypes returns blocks in each of which one attribute or nested block has a value of the wrong type.
func (k *kit) wrongTypes() []badBlock {
	var out []badBlock
	add := func(name, value string) {
		if len(out) < maxBadBlocks {
			b := k.block()
			b[name] = json.RawMessage(value)
			out = append(out, badBlock{fmt.Sprintf("%s = %s", name, value), name, b})
		}
	}
	for _, a := range k.manifest.Config.Attributes {
		var scalar string
		_ = json.Unmarshal(a.Type, &scalar) // composite types are JSON arrays
		switch scalar {
		case "dynamic":
		case "":
			add(a.Name, "true")
		default:
			add(a.Name, `{"of":["another","type"]}`)
		}
	}
	for _, n := range k.manifest.Config.Blocks {
		add(n.Name, "true")
	}
	return out
}

// missing returns blocks in each of which one required attribute is null.
func (k *kit) missing() []badBlock {
	var out []badBlock
	for _, a := range k.manifest.Config.Attributes {
		if a.Required && len(out) < maxBadBlocks {
			b := k.block()
			b[a.Name] = null
			out = append(out, badBlock{a.Name + " = null", a.Name, b})
		}
	}
	return out
}

func (k *kit) unknown() []badBlock {
	b := k.block()
	b[unknownAttribute] = json.RawMessage("true")
	return []badBlock{{unknownAttribute + " = true", unknownAttribute, b}}
}

// checkPath returns an error if path does not lead to the attribute or nested block name, and is not empty, which means the
// block itself.
func checkPath(b contract.ConfigBlock, path []contract.Step, name string) error {
	if len(path) == 0 {
		return nil
	}
	if path[0].Kind != contract.StepName {
		return fmt.Errorf("the path %s doesn't begin with a name", showPath(path))
	}
	if path[0].Name != name {
		return fmt.Errorf("the path %s leads to another attribute", showPath(path))
	}
	if slices.ContainsFunc(b.Attributes, func(a contract.ConfigAttribute) bool { return a.Name == name }) {
		return nil // the rest of the path is inside its value
	}
	if slices.ContainsFunc(b.Blocks, func(n contract.ConfigNestedBlock) bool { return n.Name == name }) {
		return nil
	}
	if len(path) > 1 {
		return fmt.Errorf("the path %s leads to an attribute that doesn't exist", showPath(path))
	}
	return nil
}

func showPath(path []contract.Step) string {
	var b strings.Builder
	for _, s := range path {
		switch s.Kind {
		case contract.StepName:
			b.WriteString("." + s.Name)
		case contract.StepKey:
			fmt.Fprintf(&b, "[%q]", s.Key)
		case contract.StepIndex:
			fmt.Fprintf(&b, "[%d]", s.Index)
		default:
			b.WriteString("[?]")
		}
	}
	return b.String()
}
