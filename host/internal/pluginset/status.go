package pluginset

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/host/internal/threadsocket"
)

// PluginStatus implements [threadsocket.Plugins].
func (s *Set) PluginStatus() []threadsocket.PluginStatus {
	var out []threadsocket.PluginStatus
	for _, slot := range s.plugins.Slots() {
		st := slot.Status()
		out = append(out, threadsocket.PluginStatus{
			Label: st.Plugin, Kind: st.Kind.String(), Source: st.Source, Mode: st.Mode.String(), Version: st.Version,
			Generation: st.Generation, PID: st.PID, Started: st.Started, Calls: st.Calls, Crashes: st.Crashes,
			PSSBytes: st.Usage.PSSBytes, Problem: st.Message,
		})
	}
	return out
}

// ReloadPlugin implements [threadsocket.Plugins]. The new process starts while the old one is running; if the new one fails its checks,
// the old one stays.
func (s *Set) ReloadPlugin(ctx context.Context, label, path string) error {
	slot := s.plugins.Slot(label)
	if slot == nil {
		return fmt.Errorf("no plugin %q is configured in this host", label)
	}
	spec := slot.Spec()
	if path != "" {
		spec.Path = path
	}
	if b := s.Block(label); b != nil && s.cfg.Reverified != nil {
		var err error
		if spec.SHA256, spec.ManifestDigest, err = s.cfg.Reverified(ctx, b); err != nil {
			return err
		}
	}
	return slot.Replace(ctx, spec)
}
