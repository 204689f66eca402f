package appserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// catalog has the methods about what is configured. Codex's terminal ends if account/read, model/list, config/read or
// configRequirements/read fails.
type catalog struct{ *Server }

// configuration returns the configuration of a folder, which may be relative to the server's folder; nil: that of the server's folder.
func (s catalog) configuration(ctx context.Context, dir *string) (*config.Config, error) {
	w := s.cfg.Workspace
	if dir != nil {
		absolute := *dir
		if !filepath.IsAbs(absolute) {
			absolute = filepath.Join(w.Dir, absolute)
		}
		var err error
		if w, err = s.workspace(&absolute, nil); err != nil {
			return nil, err
		}
	}
	return s.cfg.Hub.Configuration(ctx, w)
}

// defaultModel returns the model of threads that name none; nil: there is none.
func defaultModel(cfg *config.Config) *config.Model {
	for _, m := range cfg.Models {
		if m.Label == cfg.DefaultModel {
			return m
		}
	}
	return nil
}

func (s catalog) modelList(ctx context.Context, _ *call, p protocol.ModelListParams) (out protocol.ModelListResponse, err error) {
	cfg, err := s.configuration(ctx, nil)
	if err != nil {
		return out, err
	}
	var models []*config.Model
	for _, m := range cfg.Models {
		if p.ModelProvider == nil || *p.ModelProvider == m.Provider {
			models = append(models, m)
		}
	}
	if models, out.NextCursor, err = page(models, p.Page); err != nil {
		return out, err
	}
	rows := s.modelRows(ctx, models)
	for i, m := range models {
		out.Data = append(out.Data, describeModel(m, m.Label == cfg.DefaultModel, rows[i]))
	}
	return out, nil
}

// modelTimeout is how long a list of models waits for providers. Their first start may take long, and codex's terminal waits for the list.
const modelTimeout = 3 * time.Second

// modelRows asks the providers of models what they know about them; nil: a provider can't be asked, for example because it lacks a key.
func (s catalog) modelRows(ctx context.Context, models []*config.Model) []*llm.ModelRow {
	rows := make([]*llm.ModelRow, len(models))
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	o, err := s.cfg.Hub.Open(ctx, s.cfg.Workspace)
	if err != nil {
		s.log.Debug("models not described", "err", err)
		return rows
	}
	defer o.Close()
	var asked sync.WaitGroup
	for i, m := range models {
		asked.Go(func() {
			row, err := o.Model(ctx, m.Label)
			if err != nil {
				s.log.Debug("model not described", "model", m.Label, "err", err)
				return
			}
			rows[i] = &row
		})
	}
	asked.Wait()
	return rows
}

// describeModel describes a model. row is what its provider knows; nil: nothing, so that no effort can be offered but the configured one.
func describeModel(m *config.Model, isDefault bool, row *llm.ModelRow) protocol.Model {
	out := protocol.Model{
		ID: m.Label, Model: m.Label, DisplayName: m.Label, Description: m.Name + " of " + m.Provider, IsDefault: isDefault,
		SupportedReasoningEfforts: []protocol.ReasoningEffortOption{}, DefaultReasoningEffort: m.Reasoning,
		InputModalities: []protocol.InputModality{protocol.ModalityText, protocol.ModalityImage}, Provider: orNull(m.Provider),
	}
	var efforts []string
	switch {
	case row != nil:
		efforts = row.ReasoningEfforts
		out.DefaultReasoningEffort = cmp.Or(m.Reasoning, row.DefaultReasoningEffort, usualEffort(efforts))
		out.InputModalities = []protocol.InputModality{}
		for _, kind := range []protocol.InputModality{protocol.ModalityText, protocol.ModalityImage, protocol.ModalityAudio} {
			if slices.Contains(row.InputModalities, string(kind)) {
				out.InputModalities = append(out.InputModalities, kind)
			}
		}
	case m.Reasoning != "":
		efforts = []string{m.Reasoning}
	default:
		out.DefaultReasoningEffort = usualEffort(nil)
	}
	for _, e := range efforts {
		out.SupportedReasoningEfforts = append(out.SupportedReasoningEfforts, protocol.ReasoningEffortOption{ReasoningEffort: e, Description: e + " effort"})
	}
	return out
}

// usualEffort returns the effort that clients show for a model whose own default is not known.
func usualEffort(efforts []string) string {
	switch {
	case len(efforts) == 0:
		return "none"
	case slices.Contains(efforts, "medium"):
		return "medium"
	}
	return efforts[0]
}

// page returns a part of a list. Cursors are offsets, as in codex.
func page[T any](all []T, p protocol.Page) (data []T, next *string, err error) {
	from := 0
	if p.Cursor != nil {
		if from, err = strconv.Atoi(*p.Cursor); err != nil || from < 0 || from > len(all) {
			return nil, nil, rpc.Errorf(rpc.InvalidRequest, "invalid cursor: %s", *p.Cursor)
		}
	}
	all = all[from:]
	if p.Limit != nil && uint64(len(all)) > uint64(max(1, *p.Limit)) {
		n := int(max(1, *p.Limit))
		cursor := strconv.Itoa(from + n)
		return all[:n], &cursor, nil
	}
	return all, nil, nil
}

func (s catalog) providerList(ctx context.Context, _ *call, _ protocol.ModelProviderListParams) (out protocol.ModelProviderListResponse, err error) {
	cfg, err := s.configuration(ctx, nil)
	if err != nil {
		return out, err
	}
	for _, b := range cfg.Providers {
		out.Data = append(out.Data, protocol.ModelProviderSummary{
			ID: b.Label, Name: b.Label, BaseURL: orNull(b.BaseURL()),
			Settings: protocol.ProviderSettings{Body: protocol.CustomGatewayProvider{Auth: protocol.GatewayAuth{Body: authOf(b)}}},
		})
	}
	if m := defaultModel(cfg); m != nil {
		out.DefaultProviderID = m.Provider
	}
	return out, nil
}

// authOf returns where a provider's key comes from.
func authOf(b *config.PluginBlock) protocol.GatewayAuthBody {
	if _, stored := b.KeySecret(); stored {
		return protocol.GatewayExternalAuth{}
	}
	if names := b.Variables(); len(names) > 0 {
		return protocol.GatewayEnvKey{EnvKey: names[0]}
	}
	if b.HasKey() {
		return protocol.GatewayExternalAuth{}
	}
	return protocol.GatewayNoAuth{}
}

// providerCapabilities returns what the provider of the default model does itself for threads.
func (s catalog) providerCapabilities(ctx context.Context, _ *call, _ protocol.ModelProviderCapabilitiesReadParams) (out protocol.ModelProviderCapabilitiesReadResponse, err error) {
	cfg, err := s.configuration(ctx, nil)
	if err != nil {
		return out, err
	}
	if m := defaultModel(cfg); m != nil {
		out.WebSearch = slices.ContainsFunc(m.HostedTools, func(t config.HostedTool) bool { return t.Kind == "web_search" })
		out.ImageGeneration = slices.ContainsFunc(m.HostedTools, func(t config.HostedTool) bool { return t.Kind == "image_generation" })
	}
	return out, nil
}

// wireMode returns a sandbox mode of the configuration as codex names it.
func wireMode(mode string) protocol.SandboxMode {
	if mode == fullAccess {
		return protocol.SandboxFullAccess
	}
	return protocol.SandboxMode(mode)
}

// hooksList describes the hooks of folders. Entries of folders that can't be read say why.
func (s catalog) hooksList(ctx context.Context, _ *call, p protocol.HooksListParams) (out protocol.HooksListResponse, err error) {
	for _, dir := range s.folders(p.Cwds) {
		e := protocol.HooksListEntry{Cwd: dir, Hooks: []protocol.HookMetadata{}, Warnings: []string{}, Errors: []protocol.HookErrorInfo{}}
		w, err := s.workspace(&dir, nil)
		var found []hub.Hook
		var problems []hub.HookProblem
		if err == nil {
			found, problems, err = s.cfg.Hub.Hooks(ctx, w)
		}
		if err != nil {
			e.Errors = append(e.Errors, protocol.HookErrorInfo{Path: dir, Message: err.Error()})
		}
		for _, h := range problems {
			e.Errors = append(e.Errors, protocol.HookErrorInfo{Path: h.Source, Message: h.Text})
		}
		for i, h := range found {
			if h.Problem != "" {
				e.Errors = append(e.Errors, protocol.HookErrorInfo{Path: cmp.Or(h.Source, dir), Message: h.Key + ": " + h.Problem})
			}
			m, ok := hookMetadata(h, dir)
			if !ok {
				e.Warnings = append(e.Warnings, fmt.Sprintf("the protocol has no name for the event %s of hook %s", h.Event, h.Key))
				continue
			}
			m.DisplayOrder = int64(i)
			e.Hooks = append(e.Hooks, m)
		}
		out.Data = append(out.Data, e)
	}
	return out, nil
}

// folders returns folders of a request, absolute; none: the server's.
func (s catalog) folders(dirs []string) []string {
	if len(dirs) == 0 {
		return []string{s.cfg.Workspace.Dir}
	}
	var out []string
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(s.cfg.Workspace.Dir, dir)
		}
		out = append(out, dir)
	}
	return out
}

// hookMetadata converts a hook. ok is false if the protocol has no name for its event: clients of codex refuse unknown ones.
func hookMetadata(h hub.Hook, dir string) (m protocol.HookMetadata, ok bool) {
	m = protocol.HookMetadata{
		Key: h.Key, EventName: protocol.HookEventName(strings.ToLower(h.Event[:1]) + h.Event[1:]), Matcher: orNull(h.Matcher),
		TimeoutSec: uint64(math.Ceil(h.Timeout.Seconds())), StatusMessage: orNull(h.Status), SourcePath: cmp.Or(h.Source, dir),
		IsManaged: h.Scope == "managed", CurrentHash: h.Digest, TrustStatus: protocol.HookTrustStatus(h.Trust),
	}
	m.Enabled = m.TrustStatus == protocol.HookTrustManaged || m.TrustStatus == protocol.HookTrustTrusted
	switch h.Kind {
	case "command":
		m.Body = protocol.CommandHook{Command: h.Command, Async: h.Async}
	case "prompt":
		m.Body = protocol.PromptHook{}
	case "agent":
		m.Body = protocol.AgentHook{}
	}
	switch {
	case h.Source == "":
		m.Source = protocol.HookSourceSessionFlags
	case h.Scope == "managed":
		m.Source = protocol.HookSourceSystem
	default:
		m.Source = protocol.HookSource(h.Scope)
	}
	return m, m.EventName.Known()
}

// skillsList returns that there are no skills, which gantry does not have. Codex's terminal shows an error if the method does not exist.
func (s catalog) skillsList(_ context.Context, _ *call, p protocol.SkillsListParams) (out protocol.SkillsListResponse, err error) {
	for _, dir := range s.folders(p.Cwds) {
		out.Data = append(out.Data, protocol.SkillsListEntry{Cwd: dir, Skills: []protocol.SkillMetadata{}, Errors: []protocol.SkillErrorInfo{}})
	}
	return out, nil
}

// requirementsRead returns no requirements: gantry's machine-wide file has settings, which apply like those of other files.
func (s catalog) requirementsRead(context.Context, *call, protocol.NoParams) (out protocol.ConfigRequirementsReadResponse, err error) {
	return out, nil
}

func (s catalog) profileList(ctx context.Context, _ *call, p protocol.PermissionProfileListParams) (out protocol.PermissionProfileListResponse, err error) {
	var all []protocol.PermissionProfileSummary
	for _, id := range slices.Sorted(maps.Keys(profiles())) {
		all = append(all, protocol.PermissionProfileSummary{ID: id, Description: orNull("the sandbox mode " + sandboxMode(profiles()[id])), Allowed: true})
	}
	out.Data, out.NextCursor, err = page(all, p.Page)
	return out, err
}

func (s catalog) modeList(context.Context, *call, protocol.CollaborationModeListParams) (out protocol.CollaborationModeListResponse, err error) {
	mode := protocol.ModeDefault
	out.Data = []protocol.CollaborationModeMask{{Name: "Default", Mode: &mode}}
	return out, nil
}

// featureList returns no features: what gantry has is switched on and off with settings.
func (s catalog) featureList(context.Context, *call, protocol.ExperimentalFeatureListParams) (out protocol.ExperimentalFeatureListResponse, err error) {
	return out, nil
}

func (s catalog) featureSet(_ context.Context, _ *call, p protocol.ExperimentalFeatureEnablementSetParams) (out protocol.ExperimentalFeatureEnablementSetResponse, err error) {
	for _, name := range slices.Sorted(maps.Keys(p.Enablement)) {
		return out, hint.With(rpc.Errorf(rpc.InvalidRequest, "unknown feature `%s`: this server has none", name), "`gantry config schema` lists the settings")
	}
	out.Enablement = map[string]bool{}
	return out, nil
}

// mcpReload answers what codex's clients call after a change. Threads read the configuration of their plugins anyway.
func (s catalog) mcpReload(context.Context, *call, protocol.NoParams) (out protocol.MCPServerRefreshResponse, err error) {
	return out, nil
}

// sourceTimeout is how long a list of MCP servers waits for those that are starting.
const sourceTimeout = 5 * time.Second

func (s catalog) mcpServers(ctx context.Context, _ *call, p protocol.ListMCPServerStatusParams) (out protocol.ListMCPServerStatusResponse, err error) {
	w := s.cfg.Workspace
	if p.ThreadID != nil {
		t, err := s.running(ctx, *p.ThreadID)
		if err != nil {
			return out, err
		}
		if own := t.Workspace(); own != nil {
			w = *own
		} else if w, err = s.workspace(new(t.Started().Cwd), nil); err != nil { // of another process
			return out, err
		}
	}
	o, err := s.cfg.Hub.Open(ctx, w)
	if err != nil {
		return out, err
	}
	defer o.Close()
	all, err := o.Sources(ctx, sourceTimeout)
	if err != nil {
		return out, err
	}
	all = slices.DeleteFunc(all, func(src hub.SourceStatus) bool { return p.ServerName != nil && *p.ServerName != src.Name })
	if all, out.NextCursor, err = page(all, p.Page); err != nil {
		return out, err
	}
	out.Data = make([]protocol.MCPServerStatus, len(all))
	var listed sync.WaitGroup
	for i, src := range all {
		out.Data[i] = describeSource(src)
		if src.Resources && src.State == contract.SourceReady && deref(p.Detail) != protocol.MCPServerStatusToolsAndAuthOnly {
			listed.Go(func() { s.listResources(ctx, o, src, &out.Data[i]) })
		}
	}
	listed.Wait()
	return out, nil
}

// describeSource describes a source of tools as an MCP server, without its resources.
func describeSource(src hub.SourceStatus) protocol.MCPServerStatus {
	out := protocol.MCPServerStatus{
		Name: src.Name, AuthStatus: protocol.MCPAuthUnknown, ToolsError: orNull(src.Message), Tools: map[string]protocol.MCPTool{},
		Resources: []protocol.MCPServerResource{}, ResourceTemplates: []protocol.MCPServerResourceTemplate{},
	}
	switch src.State {
	case contract.SourceStarting:
		out.RuntimeStatus = protocol.MCPServerRuntimeStarting
	case contract.SourceNeedsLogin:
		out.RuntimeStatus, out.AuthStatus = protocol.MCPServerNeedsAuthentication, protocol.MCPAuthNotLoggedIn
	case contract.SourceFailed:
		out.RuntimeStatus = protocol.MCPServerRuntimeFailed
	default:
		out.RuntimeStatus, out.ServerCapabilities = protocol.MCPServerConnected, map[string]struct{}{}
		for name, has := range map[string]bool{"tools": len(src.Tools) > 0, "prompts": len(src.Prompts) > 0, "resources": src.Resources} {
			if has {
				out.ServerCapabilities[name] = struct{}{}
			}
		}
	}
	for _, d := range src.Tools {
		t := protocol.MCPTool{Name: d.Name, Description: orNull(d.Description), InputSchema: d.InputSchema, OutputSchema: d.OutputSchema}
		for _, e := range d.Effects {
			if e, ok := e.(contract.ServiceEffect); ok { // has the server's own name, which may not be one for models
				t.Name = e.Action
				t.Annotations = &protocol.MCPToolAnnotations{
					ReadOnlyHint: e.ReadOnly, DestructiveHint: e.Destructive, IdempotentHint: e.Idempotent, OpenWorldHint: e.OpenWorld,
				}
			}
		}
		out.Tools[t.Name] = t
	}
	return out
}

// listResources adds the resources of a source, which a plugin whose sources have any lists with its command "resources".
func (s catalog) listResources(ctx context.Context, o *hub.Opened, src hub.SourceStatus, out *protocol.MCPServerStatus) {
	for _, templates := range []bool{false, true} {
		input, err := json.Marshal(map[string]any{"name": src.Name, "templates": templates})
		var raw json.RawMessage
		if err == nil {
			raw, err = o.RunCommand(ctx, hub.PluginCommand{Plugin: src.Plugin, Name: "resources", Input: input})
		}
		type row struct{ URI, Name, Type, Description string }
		var rows struct{ Resources, ResourceTemplates []row }
		if err == nil {
			err = json.Unmarshal(raw, &rows)
		}
		if err != nil { // many servers have resources and no templates
			s.log.Debug("resources not listed", "plugin", src.Plugin, "source", src.Name, "err", err)
			continue
		}
		for _, r := range rows.Resources {
			out.Resources = append(out.Resources, protocol.MCPServerResource{URI: r.URI, Name: r.Name, Description: orNull(r.Description), MIMEType: orNull(r.Type)})
		}
		for _, r := range rows.ResourceTemplates {
			out.ResourceTemplates = append(out.ResourceTemplates, protocol.MCPServerResourceTemplate{URITemplate: r.URI, Name: r.Name, Description: orNull(r.Description), MIMEType: orNull(r.Type)})
		}
	}
}

func (s catalog) diagnostics(context.Context, *call, protocol.ServerDiagnosticsParams) (out protocol.ServerDiagnosticsResponse, err error) {
	out.Process.ID = uint32(os.Getpid())
	if rss, ok := residentMemory(); ok {
		out.Process.ResidentMemoryBytes = &rss
	}
	loaded := s.cfg.Hub.Loaded()
	active := 0
	for _, id := range loaded {
		if s.cfg.Hub.Status(id).State == hub.Active {
			active++
		}
	}
	subscriptions := 0
	for _, c := range s.all() {
		c.mu.Lock()
		subscriptions += len(c.subs)
		c.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range []struct {
		name  string
		value int
	}{
		{"connections", len(s.mu.clients)}, {"subscriptions", subscriptions}, {"loadedThreads", len(loaded)}, {"activeThreads", active},
		{"followedThreads", len(s.mu.feeds)}, {"pendingLogins", len(s.mu.logins)}, {"goroutines", runtime.NumGoroutine()},
	} {
		out.Gauges = append(out.Gauges, protocol.ServerDiagnosticsGauge{Name: g.name, Value: uint64(g.value)})
	}
	return out, nil
}

// localEnvironment is the ID of the only environment there is: this machine.
const localEnvironment = "local"

func (s catalog) environmentInfo(ctx context.Context, _ *call, p protocol.EnvironmentInfoParams) (out protocol.EnvironmentInfoResponse, err error) {
	if p.EnvironmentID != localEnvironment {
		return out, hint.With(rpc.Errorf(rpc.InvalidRequest, "unknown environment id `%s`", p.EnvironmentID), "use "+localEnvironment+": there is no other one")
	}
	o, err := s.cfg.Hub.Open(ctx, s.cfg.Workspace)
	if err != nil {
		return out, err
	}
	defer o.Close()
	shell := o.Shell()
	out.Shell, out.Cwd = protocol.EnvironmentShellInfo{Name: filepath.Base(shell), Path: shell}, &s.cfg.Workspace.Dir
	return out, nil
}

func (s catalog) environmentStatus(_ context.Context, _ *call, p protocol.EnvironmentStatusParams) (out protocol.EnvironmentStatusResponse, err error) {
	out.Status = protocol.EnvironmentUnknown
	if p.EnvironmentID == localEnvironment {
		out.Status = protocol.EnvironmentReady
	}
	return out, nil
}

// pluginHost is the host of a thread, here or in another process, or of a folder.
type pluginHost struct {
	list  func(context.Context) ([]hub.PluginStatus, error)
	run   func(context.Context, hub.PluginCommand) (json.RawMessage, error)
	leave func()
}

// pluginsOf returns the host of a thread that runs, or of a folder; neither: of the server's folder.
func (s catalog) pluginsOf(ctx context.Context, thread, dir *string) (h pluginHost, err error) {
	if thread != nil {
		if dir != nil {
			return h, rpc.Errorf(rpc.InvalidParams, "`threadId` and `cwd` exclude each other")
		}
		t, err := s.running(ctx, *thread)
		if err != nil {
			return h, err
		}
		return pluginHost{t.Plugins, t.RunCommand, func() {}}, nil
	}
	w, err := s.workspace(dir, nil)
	if err != nil {
		return h, err
	}
	o, err := s.cfg.Hub.Open(ctx, w)
	if err != nil {
		return h, err
	}
	list := func(ctx context.Context) ([]hub.PluginStatus, error) { return o.Plugins(ctx), nil }
	return pluginHost{list, o.RunCommand, o.Close}, nil
}

func (s catalog) pluginList(ctx context.Context, _ *call, p protocol.GantryPluginListParams) (out protocol.GantryPluginListResponse, err error) {
	h, err := s.pluginsOf(ctx, p.ThreadID, p.Cwd)
	if err != nil {
		return out, err
	}
	defer h.leave()
	plugins, err := h.list(ctx)
	if err != nil {
		return out, err
	}
	for _, st := range plugins {
		g := protocol.GantryPlugin{
			Label: st.Label, Kind: st.Kind, Source: st.Source, Version: orNull(st.Version), State: protocol.GantryPluginState(st.Mode),
			Problem: orNull(st.Problem), Commands: pluginCommands(st.Commands),
		}
		if st.PID > 0 {
			g.PID = new(uint32(st.PID))
		}
		out.Data = append(out.Data, g)
	}
	return out, nil
}

func pluginCommands(all []contract.CommandSpec) []protocol.GantryPluginCommand {
	out := []protocol.GantryPluginCommand{}
	for _, c := range all {
		if !c.CallsTool { // a client calls the tool in a thread
			out = append(out, protocol.GantryPluginCommand{Name: c.Name, Description: c.Description, InputSchema: c.InputSchema, SideEffects: c.SideEffects})
		}
	}
	return out
}

// pluginCommand runs a command of a plugin. The plugin can ask nobody while it runs.
func (s catalog) pluginCommand(ctx context.Context, _ *call, p protocol.GantryPluginCommandParams) (out protocol.GantryPluginCommandResponse, err error) {
	if input := bytes.TrimSpace(p.Input); len(input) > 0 && input[0] != '{' {
		return out, rpc.Errorf(rpc.InvalidParams, "input: it must be an object")
	}
	h, err := s.pluginsOf(ctx, p.ThreadID, p.Cwd)
	if err != nil {
		return out, err
	}
	defer h.leave()
	out.Output, err = h.run(ctx, hub.PluginCommand{Plugin: p.Plugin, Name: p.Name, Input: p.Input, Confirmed: p.Confirmed})
	if err == nil {
		return out, nil
	}
	e := *hub.ErrorOf(err)
	if e.Code == hub.NotConfirmed {
		e.Next = "ask the user, and set `confirmed` if they agree"
	}
	return out, &e
}
