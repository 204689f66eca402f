package event

// ContextTold stands behind the messages that tell the model of its surroundings: all that it knows of them by then. What it is
// told next is the difference to this, also after the host was started again.
type ContextTold struct {
	Reference Reference `json:"reference"`
}

// Reference is what a model was told of its surroundings, section by section. Of long texts it has a digest: enough to see that
// they are others by now.
type Reference struct {
	Instructions string      `json:"instructions,omitempty"` // digest of those that the model goes by
	Permissions  Permissions `json:"permissions,omitzero"`
	Plugins      string      `json:"plugins,omitempty"` // digest of their instructions; empty: there are none
	Agents       Agents      `json:"agents,omitzero"`
	Environment  Environment `json:"environment,omitzero"`
	// Contexts are digests of the texts that plugins have for the model, by plugin and key.
	Contexts map[string]map[string]string `json:"contexts,omitempty"`
	// External are texts of clients, by key: whole, since nobody else has them.
	External map[string]string `json:"external,omitempty"`
}

// Permissions are what calls may do, and who is asked.
type Permissions struct {
	Approval      string   `json:"approval,omitempty"`
	Sandbox       string   `json:"sandbox,omitempty"`
	WritableRoots []string `json:"writableRoots,omitempty"` // beside the working folder
	Network       bool     `json:"network,omitempty"`
}

// Agents are the instructions that people keep in files for agents.
type Agents struct {
	Dir    string `json:"dir,omitempty"` // that they are for
	Digest string `json:"digest,omitempty"`
}

// Environment is where the model works.
type Environment struct {
	Cwd        string `json:"cwd,omitempty"`
	Shell      string `json:"shell,omitempty"`
	Date       string `json:"date,omitempty"` // YYYY-MM-DD
	Timezone   string `json:"timezone,omitempty"`
	Network    string `json:"network,omitempty"`    // "enabled" or "disabled"
	Filesystem string `json:"filesystem,omitempty"` // sandbox mode
}

func (ContextTold) Kind() string  { return "context.told" }
func (ContextTold) durable() bool { return true }
