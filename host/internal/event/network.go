package event

// NetworkDecision says whether a call's processes, or without a call the process of a plugin, may reach a host. Equal decisions for one process are published once.
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
	// Named is the different host that the client named inside a tunnel, with Reason "name_mismatch"; empty: it was unreadable.
	Named string `json:"named,omitempty"`
	// Source: "baseline_policy" (the rules), "mode_guard" (the methods, and the traffic in a tunnel) or "decider" (an answer).
	Source string `json:"source"`
	Rule   string `json:"rule,omitempty"` // position of the deciding rule, "FILE:LINE"
}

// Kind is the event's name.
func (NetworkDecision) Kind() string { return "network.decision" }

// Only refusals are durable: they explain why a command failed.
func (d NetworkDecision) durable() bool { return !d.Allowed }
