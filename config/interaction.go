package config

import "cmp"

// Interaction configures the tools with which a model addresses its user.
type Interaction struct {
	Plan bool // models are offered update_plan
}

// TUI configures the terminal interface, which reads it through the app server.
type TUI struct {
	History bool              // earlier messages are kept on disk
	Theme   string            // terminal, light, dark or mono
	Reader  bool              // for screen readers
	Keys    map[string]string // by action, separated by spaces
}

func terminal(b, keys block) TUI {
	return TUI{History: b.flag("history", true), Theme: cmp.Or(b.text("theme"), "terminal"), Reader: b.flag("screen_reader", false), Keys: keys.variables(nil)}
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
