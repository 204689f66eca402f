package plugin

import "github.com/gantry-agent/gantry/sdk/contract"

// Known returns the manifest that the executable with this SHA-256, in hex, gave when it was started last with these
// arguments; nil when nobody remembers. Nothing is started.
func (s *Supervisor) Known(sha256 string, args ...string) *contract.Manifest {
	return s.cache().get(s.cfg.program(sha256, Spec{Args: args}))
}

// Difference says in words how manifest b is not manifest a, empty when they are the same, and which capabilities it asks
// for that a did not.
func Difference(a, b *contract.Manifest) (words string, more []string) {
	return differences(a, b), grown(a, b)
}
