package box

// NewSeatbelt makes boxes for macOS's sandbox, whatever system this is.
func NewSeatbelt(cfg Config) *Sandbox {
	b := New(cfg)
	b.seatbelt, b.locator.MacOS = true, true
	return b
}

// WithLandlock is a box on a kernel that has this version of Landlock.
func (b *Sandbox) WithLandlock(version int) *Sandbox {
	b.landlock = func() int { return version }
	return b
}

// Killed is the end of a process that had no time to do anything: nothing is judged any more, and its locks are gone.
func (b *Sandbox) Killed() { b.guard.Abandon() }

// Alone returns when nothing is left of gantries that were killed.
func (b *Sandbox) Alone() { b.guard.WaitAdopted() }

// Walk has nothing watched.
func (b *Sandbox) Walk() *Sandbox {
	b.guard.Index.CompareOnly = true
	return b
}
