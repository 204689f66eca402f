package config

// Interaction configures the tools with which a model addresses its user.
type Interaction struct {
	Plan bool // models are offered update_plan
}

func interaction(b block) Interaction { return Interaction{Plan: b.flag("plan", true)} }

// Goals configures the goals of threads.
type Goals struct {
	Enabled   bool
	MaxTokens int64 // of a goal; 0: unlimited
}

func goals(b block) Goals {
	return Goals{Enabled: b.flag("enabled", true), MaxTokens: b.integer("max_tokens")}
}
