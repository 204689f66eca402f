//go:build !linux && !darwin

package tree

import "errors"

// Tree is not supported on this system.
type Tree struct{}

// Open returns errors.ErrUnsupported.
func Open(string, Options) (*Tree, error) { return nil, errors.ErrUnsupported }

// Changes never receives.
func (*Tree) Changes() <-chan struct{} { return nil }

// Settle returns errors.ErrUnsupported.
func (*Tree) Settle() (Result, error) { return Result{}, errors.ErrUnsupported }

// Noted is empty.
func (*Tree) Noted() []Folder { return nil }

// Linked is empty.
func (*Tree) Linked() []Linked { return nil }

// HasLinks reports that there are none.
func (*Tree) HasLinks() bool { return false }

// Again does nothing.
func (*Tree) Again(string) {}

// Stats are empty.
func (*Tree) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Tree) Close() error { return nil }
