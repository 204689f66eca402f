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
	// Reason: "allowed", "approved", "denied", "not_allowed", "not_allowed_local", "method_not_allowed", "mitm_required" or
	// "invalid_host".
	Reason string `json:"reason"`
	// Source: "baseline_policy" (the rules), "mode_guard" (the methods) or "decider" (who was asked).
	Source string `json:"source"`
}

// Kind is the event's name.
func (NetworkDecision) Kind() string { return "network.decision" }

// A refusal explains why a command failed; it is kept with the thread.
func (d NetworkDecision) durable() bool { return !d.Allowed }
