package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/source"
	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/grants"
	"github.com/gantry-agent/gantry/host/internal/hosttool"
	"github.com/gantry-agent/gantry/host/internal/plugin"
	"github.com/gantry-agent/gantry/host/internal/pluginset"
	"github.com/gantry-agent/gantry/host/internal/registry"
	"github.com/gantry-agent/gantry/host/internal/service"
	"github.com/gantry-agent/gantry/host/internal/tool"
	"github.com/gantry-agent/gantry/sdk/contract"
)

// addPlugins makes a slot for each configured block and fills the catalogue from their manifests. A manifest that is
// cached starts nothing.
func (h *Host) addPlugins(ctx context.Context) error {
	var labels []string
	for _, b := range h.opts.Config.Blocks() {
		spec, err := h.spec(b)
		if err != nil {
			return err
		}
		slot, err := h.plugins.Add(spec)
		if err != nil {
			return err
		}
		if b.Kind == contract.KindTool {
			labels = append(labels, b.Label)
			h.families[b.Label] = tool.New(slot)
		}
	}
	h.registry = registry.New(labels...)
	h.tools = hosttool.Default()
	h.tools.Reserve(h.registry)
	return nil
}

// spec describes the slot of a block. A label is a provider's or a plugin's, never both: the configuration sees to it.
func (h *Host) spec(b *config.PluginBlock) (plugin.Spec, error) {
	label := b.Label
	path, err := Program(b, h.opts.BinDir, h.opts.Home)
	if err != nil {
		return plugin.Spec{}, fmt.Errorf("%s: %w", b.Where(), err)
	}
	s := plugin.Spec{
		Label: label, Kind: b.Kind, Source: b.Source, Path: path, Args: b.Args, Env: b.Env, UnsafeEnv: b.UnsafeEnv,
		Limits:    plugin.Limits{MemoryBytes: b.Limits.MemoryBytes, Pids: int(b.Limits.Pids), StorageBytes: b.Limits.StorageBytes},
		Transport: b.Transport, StartTimeout: b.StartTimeout, Where: b.Where(),
	}
	sandboxes := grants.Plugins{
		Config: h.opts.Config, Keys: h.keyFiles, Box: h.box, BinDir: h.opts.BinDir, Home: h.opts.Home, UserHome: grants.UserHome(h.opts.Environ),
	}
	s.Confine = h.withFiles(b, sandboxes.Sandbox(b, path))
	if h.opts.Verified != nil {
		s.SHA256, s.ManifestDigest = h.opts.Verified(b)
	}
	s.Configure = func(_ context.Context, m *contract.Manifest) ([]byte, []contract.Diagnostic) {
		render := b.Render
		if h.opts.Keyless && b.Kind == contract.KindProvider {
			render = b.Preview
		}
		data, secrets, diags := render(m)
		for _, s := range secrets {
			h.opts.Redactor.Add(s.Value)
		}
		var lacking []event.Notice
		for _, d := range diags {
			lacking = append(lacking, event.Notice{Level: "warning", Text: d.Summary, Next: d.Next})
		}
		h.mu.Lock()
		h.mu.secrets[label] = secrets
		h.mu.lacking[label] = lacking
		h.mu.Unlock()
		return data, contractDiagnostics(diags)
	}
	s.Place = func(said []contract.Diagnostic) []contract.Diagnostic { return contractDiagnostics(b.Diagnose(said)) }
	return s, nil
}

// MissingSettings tells people what a provider's block lacks that has come up without it, under a host that is keyless.
func (h *Host) MissingSettings(label string) []event.Notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mu.lacking[label])
}

// Program finds the binary of a block: built-in ones lie beside the host's, installed ones in home's plugins folder.
func Program(b *config.PluginBlock, binDir, home string) (string, error) {
	switch b.Program.Kind {
	case source.Builtin:
		return filepath.Join(binDir, "gantry-"+b.Kind.String()+"-"+b.Program.Name), nil
	case source.Path:
		return b.Path, nil
	}
	path, _, err := b.Program.Find(filepath.Join(home, "plugins"), b.Version)
	return path, err
}

// withFiles compares at each start what a program loads with what it was when this host began, which was as locked.
func (h *Host) withFiles(b *config.PluginBlock, confine func([]string) (*plugin.Sandbox, error)) func([]string) (*plugin.Sandbox, error) {
	if len(b.Files) == 0 {
		return confine
	}
	was, err := h.opts.Config.FilesDigest(b.Address())
	return func(own []string) (*plugin.Sandbox, error) {
		is, now := h.opts.Config.FilesDigest(b.Address())
		if err := errors.Join(err, now); err != nil {
			return nil, err
		}
		if is != was {
			return nil, hint.With(fmt.Errorf("a file that plugin %q loads has changed", b.Label),
				fmt.Sprintf("look at it, run `gantry plugin lock %s`, and start gantry again", b.Label))
		}
		return confine(own)
	}
}

func contractDiagnostics(ds config.Diagnostics) []contract.Diagnostic {
	out := make([]contract.Diagnostic, 0, len(ds))
	for _, d := range ds {
		severity := contract.SeverityError
		if d.Severity == diag.Warning {
			severity = contract.SeverityWarning
		}
		detail := d.Detail
		if where := d.Range.String(); where != "" {
			detail = strings.TrimSuffix(strings.TrimSpace(where+": "+detail), ":")
		}
		out = append(out, contract.Diagnostic{Severity: severity, Summary: d.Summary, Detail: detail, Next: d.Next})
	}
	return out
}

// secret finds what stands behind a handle of a plugin's block.
func (h *Host) secret(label, handle string) (service.Secret, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.mu.secrets[label][handle]
	out := service.Secret{Value: s.Value}
	if c := s.Command; c != nil {
		out.Program = &service.Program{Argv: c.Argv, Dir: c.Dir, Timeout: c.Timeout, Refresh: c.Refresh, Check: c.Check}
	}
	return out, ok
}

// loadTools fills the catalogue before a thread's first turn, in parallel: from the tool set that a plugin sent last under the
// same configuration, else from its manifest, else by starting it. What a plugin sends once it runs replaces that. A plugin that is broken is named and left out; the next turn tries
// again.
func (h *Host) loadTools(ctx context.Context) (broken map[string]event.Notice) {
	type loaded struct {
		label        string
		instructions string
		set          contract.ToolSet
		err          error
	}
	// One at a time: who comes second finds what the first one loaded.
	select {
	case h.loading <- struct{}{}:
		defer func() { <-h.loading }()
	case <-ctx.Done():
		return nil
	}
	results := make(chan loaded, len(h.families))
	var work sync.WaitGroup
	for label, family := range h.families {
		h.mu.Lock()
		known := h.mu.loaded[label]
		h.mu.Unlock()
		if known {
			continue
		}
		work.Go(func() {
			r := loaded{label: label}
			defer func() { results <- r }()
			m, err := h.plugins.Slot(label).Manifest(ctx)
			if err != nil {
				r.err = err
				return
			}
			h.learn(label, m)
			block := []byte("{}")
			if b, ok := h.opts.Config.Plugin(label); ok {
				// A mistake in the block is told before the model is offered tools that can't work.
				var ds config.Diagnostics
				if block, ds = b.Check(m); ds.HasErrors() {
					r.err = ds.Err()
					return
				}
			}
			r.instructions = m.Instructions
			known := false
			r.set, known = family.Known(block)
			if required := requiredSources(r.set); len(required) > 0 {
				// The first turn waits for them, so the plugin's own set comes in time.
				if r.set, r.err = firstSet(ctx, family); r.err != nil {
					r.set = contract.ToolSet{Sources: failed(required, r.err)}
				}
				return
			}
			if known {
				for i := range r.set.Sources {
					r.set.Sources[i].State, r.set.Sources[i].Message = contract.SourceStarting, "" // they come up with the plugin
				}
				return
			}
			r.set = contract.ToolSet{Revision: m.Digest(), Tools: m.Tools}
			if len(m.Tools) == 0 {
				r.set, r.err = firstSet(ctx, family)
			}
		})
	}
	work.Wait()
	close(results)
	broken = map[string]event.Notice{}
	for r := range results {
		if r.err != nil {
			broken[r.label] = event.Notice{Level: "error", Text: placed(r.err), Next: next(r.err)}
			if len(r.set.Sources) > 0 {
				h.setTools(r.label, r.set, false)
			}
			continue
		}
		h.mu.Lock()
		h.mu.loaded[r.label] = true
		h.mu.instructions[r.label] = r.instructions
		h.mu.Unlock()
		h.setTools(r.label, r.set, false)
		h.failSources(r.label) // the plugin may have crashed since it sent the set
	}
	return broken
}

// setTools replaces a plugin's tools in the catalogue. [Host.unheeded] tells people which of them are left out. A set that
// is not live, as the plugin's last process sent it, does not replace one that is.
func (h *Host) setTools(label string, set contract.ToolSet, live bool) {
	h.cataloguing.Lock()
	defer h.cataloguing.Unlock()
	if h.live[label] && !live {
		return
	}
	h.live[label] = live
	problems := h.registry.Set(label, set)
	leftOut := make([]contract.Diagnostic, len(problems))
	for i, p := range problems {
		text, next := hint.Split(p)
		leftOut[i] = contract.Diagnostic{Severity: contract.SeverityWarning, Summary: strings.ReplaceAll(text, "\n", "; "), Next: next}
	}
	h.mu.Lock()
	h.mu.leftOut[label] = leftOut
	h.mu.Unlock()
}

// news tells a thread's people which plugins have broken, or broken in another way, or work again since they were told
// last.
func news(last, now map[string]event.Notice) (out []event.Notice) {
	for _, label := range slices.Sorted(maps.Keys(now)) {
		if was, told := last[label]; !told || gist(was) != gist(now[label]) {
			out = append(out, now[label])
		}
	}
	for _, label := range slices.Sorted(maps.Keys(last)) {
		if _, still := now[label]; !still {
			out = append(out, event.Notice{Level: "info", Text: fmt.Sprintf("plugin %q works again", label)})
		}
	}
	return out
}

// gist is a notice without its numbers: those of folders and processes differ from one start to the next.
func gist(n event.Notice) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, n.Text+n.Next)
}

// placed words an error with the place of the block that it is about.
func placed(err error) string {
	if e, ok := errors.AsType[*plugin.Error](err); ok && e.Where != "" {
		return e.Where + ": " + err.Error()
	}
	return err.Error()
}

// firstSet starts a plugin and waits for its first tool set.
func firstSet(ctx context.Context, family *tool.Client) (set contract.ToolSet, err error) {
	err = pluginset.RetryCrash(func() (err error) {
		set, err = watchOnce(ctx, family)
		return err
	})
	return set, err
}

func watchOnce(ctx context.Context, family *tool.Client) (contract.ToolSet, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first *contract.ToolSet
	err := family.Watch(ctx, func(s contract.ToolSet) {
		if first == nil {
			first = &s
		}
		cancel()
	})
	if first != nil {
		return *first, nil
	}
	if err == nil {
		err = fmt.Errorf("the plugin ended before it named its tools")
	}
	return contract.ToolSet{}, err
}

// heed tells the people of each thread what plugins say of their blocks.
func (h *Host) heed() {
	h.mu.Lock()
	threads := slices.Collect(maps.Values(h.mu.threads))
	h.mu.Unlock()
	for _, r := range threads {
		for _, n := range h.unheeded(r) {
			if _, err := r.thread.Publish(h.life, "", n); err != nil {
				h.log.Debug("warning of a plugin not published", "thread", r.thread.ID(), "err", err)
			}
		}
	}
}

// unheeded takes what a thread's people were not told yet of what plugins say of their blocks, and of tools that are left out.
func (h *Host) unheeded(r *running) (out []event.Notice) {
	if r.role.Unattended {
		return nil
	}
	slots := h.plugins.Slots()
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := h.lostSources(r)
	for _, slot := range slots {
		label := slot.State().Plugin
		for _, d := range slices.Concat(slot.Warnings(), h.mu.leftOut[label], lost[label]) {
			text := fmt.Sprintf("plugin %q: %s", label, d.Summary)
			if d.Detail != "" {
				text += " (" + d.Detail + ")"
			}
			if text = h.opts.Redactor.Text(text); r.told.First(text) {
				out = append(out, event.Notice{Level: "warning", Text: text, Next: h.opts.Redactor.Text(d.Next)})
			}
		}
	}
	return out
}

// pluginState follows a plugin: a tool plugin that became ready is watched as long as that process lives.
func (h *Host) pluginState(s plugin.State) {
	if h.opts.OnPlugin != nil {
		h.opts.OnPlugin(event.PluginState{Plugin: s.Plugin, State: s.Mode.String(), Generation: s.Generation, Message: s.Message})
	}
	family, ok := h.families[s.Plugin]
	if s.Mode != plugin.ModeReady {
		if ok {
			h.begin(func() { h.failSources(s.Plugin) })
		}
		return
	}
	h.begin(h.heed) // whoever tells of a plugin's state does not wait for threads
	if !ok {
		return
	}
	h.begin(func() { // ends with the plugin's process or the host
		err := family.Watch(h.life, func(set contract.ToolSet) {
			h.setTools(s.Plugin, set, true)
			h.begin(h.heed)
			h.begin(h.tellAllSources)
		})
		h.failSources(s.Plugin) // after the last set that the process sent
		if err != nil && h.life.Err() == nil {
			h.log.Debug("watch ended", "plugin", s.Plugin, "err", err)
		}
	})
}

// builtIn reports whether a plugin comes with gantry: its program is one that was installed with it.
func (h *Host) builtIn(label string) bool {
	b := h.block(label)
	return b != nil && b.Program.Kind == source.Builtin
}
