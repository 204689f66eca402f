package protocol_test

import (
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
)

func TestNearestEffort(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, asked string
		offered     []string
		want        string
	}{
		{"itself", "low", []string{"low", "high"}, "low"},
		{"rather a weaker one", "medium", []string{"low", "high"}, "low"},
		{"the strongest of the weaker ones", "xhigh", []string{"minimal", "low", "high", "max"}, "high"},
		{"more than there is", "ultra", []string{"low", "high"}, "high"},
		{"less than there is", "none", []string{"medium", "high"}, "medium"},
		{"a word of the vendor's own", "turbo", []string{"turbo"}, "turbo"},
		{"nothing but words of the vendor's own", "low", []string{"calm", "turbo"}, "calm"},
		{"a word that nobody knows", "heroic", []string{"low"}, ""},
		{"nothing is offered", "low", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := protocol.NearestEffort(tt.asked, tt.offered); got != tt.want {
				t.Errorf("%q of %q is %q, want %q", tt.asked, tt.offered, got, tt.want)
			}
		})
	}
}
