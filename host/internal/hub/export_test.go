package hub

// HoldStates keeps a hub from learning more about the states of threads until release is called.
func HoldStates(h *Hub) (release func()) {
	h.monitor.mu.Lock()
	return h.monitor.mu.Unlock
}
