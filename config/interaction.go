package config

// Interaction configures the tools with which a model addresses its user.
type Interaction struct {
	Plan bool // models are offered update_plan
}

func interaction(b block) Interaction { return Interaction{Plan: b.flag("plan", true)} }
