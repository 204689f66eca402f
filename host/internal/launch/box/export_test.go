package box

// NewSeatbelt returns a sandbox for macOS on any system.
func NewSeatbelt(cfg Config) *Sandbox {
	b := New(cfg)
	b.seatbelt, b.locator.MacOS = true, true
	return b
}

// WithLandlock makes the sandbox believe in a version of Landlock.
func (b *Sandbox) WithLandlock(version int) *Sandbox {
	b.landlock = func() int { return version }
	return b
}

// Killed ends the sandbox as if the process had been killed: nothing is judged, and its locks are released.
func (b *Sandbox) Killed() { b.guard.Abandon() }

// Alone waits until no process of a killed gantry is left.
func (b *Sandbox) Alone() { b.guard.WaitAdopted() }

// Walk makes the sandbox compare folders instead of watching them.
func (b *Sandbox) Walk() *Sandbox {
	b.guard.Index.CompareOnly = true
	return b
}
