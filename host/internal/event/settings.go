package event

// Settings are the settings of a thread that a user can change between two turns. Empty fields have the value from the start of the
// thread or from the configuration.
type Settings struct {
	Cwd       string `json:"cwd,omitempty"`
	Model     string `json:"model,omitempty"`     // model of the next turn, as the user named it
	Reasoning string `json:"reasoning,omitempty"` // reasoning effort of the model
	// Approval and Sandbox apply while the host runs the thread; a resumed thread starts with the values of the configuration.
	Approval string `json:"approval,omitempty"`
	Sandbox  string `json:"sandbox,omitempty"`
}

// SettingsChanged has all settings that apply from this event on, or from the turn on that the event belongs to.
type SettingsChanged struct {
	Settings Settings `json:"settings"`
}

func (SettingsChanged) Kind() string  { return "settings.changed" }
func (SettingsChanged) durable() bool { return true }
