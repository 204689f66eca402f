package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ContextUpdated follows the messages that describe the context to the model, and records everything that the model knows about it
// at that point. The next update describes only the differences, also after a restart of the host.
type ContextUpdated struct {
	Reference Reference `json:"reference"`
}

// Reference is the context that a model knows.
type Reference struct {
	// Sections are digests of the sections' texts, by section ID. Sections with texts of clients contain the text itself, which is
	// stored nowhere else.
	Sections map[string]string `json:"sections,omitempty"`
}

// Digest identifies a text in a [Reference]; it is empty for an empty text.
func Digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Ids of the sections that every thread has. An id that ends in "/" is the prefix of one section for each value.
const (
	SectionInstructions = "instructions" // that the model follows
	SectionPermissions  = "permissions"
	SectionDeveloper    = "developer" // instructions of the client that started the thread
	SectionPlugins      = "plugins"   // fixed instructions of plugins
	SectionAgents       = "agents"    // instructions in files
	SectionEnvironment  = "environment/"
	SectionContexts     = "contexts/" // texts of plugins: PLUGIN/KEY
	SectionExternal     = "external/" // texts of clients: KEY
)

// Permissions are what calls may do, and who is asked.
type Permissions struct {
	Approval      string   `json:"approval,omitempty"`
	Sandbox       string   `json:"sandbox,omitempty"`
	WritableRoots []string `json:"writableRoots,omitempty"` // in addition to the working folder
	Network       bool     `json:"network,omitempty"`
}

// Digest identifies permissions in a [Reference].
func (p Permissions) Digest() string {
	b, _ := json.Marshal(p) // strings and booleans always marshal
	return Digest(string(b))
}

// AgentsDigest identifies the instructions of files for a folder; digest is that of their text.
func AgentsDigest(dir, digest string) string { return Digest(dir + "\n" + digest) }

// Environment is where the model works.
type Environment struct {
	Cwd        string `json:"cwd,omitempty"`
	Shell      string `json:"shell,omitempty"`
	Date       string `json:"date,omitempty"` // YYYY-MM-DD
	Timezone   string `json:"timezone,omitempty"`
	Network    string `json:"network,omitempty"`    // "enabled" or "disabled"
	Filesystem string `json:"filesystem,omitempty"` // sandbox mode
}

// EnvironmentField is one value of an [Environment].
type EnvironmentField struct{ Name, Value string }

// Fields are the values in the order in which the model reads them, under the names that it reads.
func (e Environment) Fields() []EnvironmentField {
	return []EnvironmentField{
		{"cwd", e.Cwd}, {"shell", e.Shell}, {"current_date", e.Date}, {"timezone", e.Timezone}, {"network", e.Network},
		{"filesystem", e.Filesystem},
	}
}

// UnmarshalJSON implements [json.Unmarshaler]. It also reads references of gantry 0.1.0, which had a field for each section.
func (r *Reference) UnmarshalJSON(b []byte) error {
	var j struct {
		Sections     map[string]string `json:"sections"`
		Instructions string            `json:"instructions"`
		Permissions  Permissions       `json:"permissions"`
		Plugins      string            `json:"plugins"`
		Agents       struct {
			Dir    string `json:"dir"`
			Digest string `json:"digest"`
		} `json:"agents"`
		Environment Environment                  `json:"environment"`
		Contexts    map[string]map[string]string `json:"contexts"`
		External    map[string]string            `json:"external"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	r.Sections = j.Sections
	set := func(id, digest string) {
		if r.Sections == nil {
			r.Sections = map[string]string{}
		}
		r.Sections[id] = digest
	}
	setIf := func(id, digest string) {
		if digest != "" {
			set(id, digest)
		}
	}
	setIf(SectionInstructions, j.Instructions)
	if p := j.Permissions.Digest(); p != (Permissions{}).Digest() {
		set(SectionPermissions, p)
	}
	setIf(SectionPlugins, j.Plugins)
	if j.Agents.Digest != "" {
		set(SectionAgents, AgentsDigest(j.Agents.Dir, j.Agents.Digest))
	}
	for _, f := range j.Environment.Fields() {
		setIf(SectionEnvironment+f.Name, Digest(f.Value))
	}
	for plugin, texts := range j.Contexts {
		for key, digest := range texts {
			set(SectionContexts+plugin+"/"+key, digest)
		}
	}
	for key, text := range j.External {
		set(SectionExternal+key, text)
	}
	return nil
}

func (ContextUpdated) Kind() string  { return "context.told" }
func (ContextUpdated) durable() bool { return true }
