package event

// NetworkDecision says whether a call's processes may reach a host. Equal ones of one process are told once.
type NetworkDecision struct {
	Call     CallID `json:"call,omitempty"`
	Plugin   string `json:"plugin,omitempty"`
	Protocol string `json:"protocol"` // "http", "https" or "socks5"
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Method   string `json:"method,omitempty"` // of HTTP
	Allowed  bool   `json:"allowed"`
	// Reason: "allowed", "approved", "denied", "not_allowed", "not_allowed_local", "method_not_allowed", "body_not_allowed",
	// "upgrade_not_allowed", "mitm_required", "name_mismatch" or "invalid_host".
	Reason string `json:"reason"`
	// Named is the host that the client in a tunnel named instead, with "name_mismatch"; empty: none that could be read.
	Named string `json:"named,omitempty"`
	// Source: "baseline_policy" (the rules), "mode_guard" (the methods, and what is said in a tunnel) or "decider" (who was asked).
	Source string `json:"source"`
	Rule   string `json:"rule,omitempty"` // the place of the rule that decided, "FILE:LINE"
}

// Kind is the event's name.
func (NetworkDecision) Kind() string { return "network.decision" }

// A refusal explains why a command failed; it is kept with the thread.
func (d NetworkDecision) durable() bool { return !d.Allowed }
