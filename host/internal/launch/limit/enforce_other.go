//go:build !linux

package limit

// Enforcer enforces the limits of process trees. It keeps nothing here: there are only limits of single processes.
type Enforcer struct{}

// NewEnforcer returns an Enforcer.
func NewEnforcer(string) *Enforcer { return &Enforcer{} }

// InGroups reports whether control groups enforce the limits of a tree.
func (*Enforcer) InGroups(Set) bool { return false }

// Wait does nothing.
func (*Enforcer) Wait() {}

// Tree is the limits of one process tree.
type Tree struct {
	Order
	set Set
}

// Prepare prepares the limits of a tree that is about to be started.
func (*Enforcer) Prepare(_ string, s Set, _ bool, _ func()) (*Tree, error) {
	return &Tree{Order: Order{Rlimits: s.rlimits()}, set: s}, nil
}

// Started does nothing.
func (*Tree) Started(int) {}

// EndedBy returns the limit that ended the tree; empty: none did.
func (t *Tree) EndedBy(u Usage) string { return t.set.endedBy(u) }

// Close does nothing.
func (*Tree) Close() {}

// FindMeans finds nothing.
func FindMeans() Means { return Means{} }
