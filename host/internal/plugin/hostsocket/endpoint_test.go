package hostsocket

import (
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// A plugin that starts a process for each call it can have open connects as often at once, before anything is accepted.
func TestConnectsAtOnce(t *testing.T) {
	t.Parallel()
	s := New(t.TempDir(), hclog.NewNullLogger())
	defer s.Close()
	for i := range maxStreams {
		f, err := s.Connect(s.descriptors.address.Name)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer f.Close()
	}
	if _, err := s.Connect(s.descriptors.address.Name); err == nil {
		t.Error("one more than can be open was accepted")
	}
	if _, err := s.Connect(filepath.Join(t.TempDir(), "other.sock")); err == nil {
		t.Error("connected to a socket that is none of ours")
	}
	if err := s.descriptors.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(s.descriptors.address.Name); err == nil {
		t.Error("connected to a closed socket")
	}
}
