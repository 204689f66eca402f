package event

// Settings are what a user may change of a thread between two turns. What is empty is as the thread began, or as the
// configuration says.
type Settings struct {
	Cwd       string `json:"cwd,omitempty"`
	Model     string `json:"model,omitempty"`     // that the next turn changes to, as the user named it
	Reasoning string `json:"reasoning,omitempty"` // effort of the model
	// Approval and Sandbox hold as long as the host runs the thread: a resumed one begins with those of the configuration.
	Approval string `json:"approval,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
}

// SettingsChanged: from here on, or from the turn on that it belongs to, these hold; all of them are named.
type SettingsChanged struct {
	Settings Settings `json:"settings"`
}

func (SettingsChanged) Kind() string  { return "settings.changed" }
func (SettingsChanged) durable() bool { return true }
