package pluginset

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/threadsocket"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// PluginStatus implements [threadsocket.Plugins]. A plugin is started only if its manifest is neither known nor cached.
func (s *Set) PluginStatus(ctx context.Context) []threadsocket.PluginStatus {
	slots := s.plugins.Slots()
	out := make([]threadsocket.PluginStatus, len(slots))
	var work sync.WaitGroup
	for i, slot := range slots {
		work.Go(func() {
			m, err := s.manifest(ctx, slot)
			st := slot.Status()
			out[i] = threadsocket.PluginStatus{
				Label: st.Plugin, Kind: st.Kind.String(), Source: st.Source, Mode: st.Mode.String(), Version: st.Version,
				Generation: st.Generation, PID: st.PID, Started: st.Started, Calls: st.Calls, Crashes: st.Crashes,
				PSSBytes: st.Usage.PSSBytes, Problem: st.Message,
			}
			switch {
			case err != nil:
				out[i].Problem = cmp.Or(out[i].Problem, s.cfg.Redactor.Text(err.Error()))
			default:
				out[i].Version, out[i].Commands = m.Version, m.Commands
			}
		})
	}
	work.Wait()
	return out
}

// manifest returns the manifest of a plugin.
func (s *Set) manifest(ctx context.Context, slot *plugin.Slot) (*contract.Manifest, error) {
	label := slot.State().Plugin
	s.mu.Lock()
	m := s.mu.manifests[label]
	s.mu.Unlock()
	if m != nil {
		return m, nil
	}
	m, err := slot.Manifest(ctx)
	if err == nil {
		s.learn(label, m)
	}
	return m, err
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
