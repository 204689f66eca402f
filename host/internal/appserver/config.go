package appserver

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// settings has the methods that read and write the configuration. Settings have gantry's names below "gantry", and those that codex has as
// well also have codex's.
type settings struct{ catalog }

// own is the name under which clients find gantry's settings. In key paths that are written it may be left out.
const own = "gantry"

// alias is a setting that codex has as well.
type alias struct {
	name string // codex's
	path string // gantry's; MODEL stands for the label of the default model
	// values are codex's values that differ from gantry's.
	values map[string]any
}

// namedChange is a change with the name that the client has used.
type namedChange struct {
	edit.Change
	name  string
	codex bool // the name is codex's
}

// aliases are the settings that codex has as well.
func aliases() []alias {
	return []alias{
		{name: "model", path: "default_model"},
		{name: "model_reasoning_effort", path: "model.MODEL.reasoning"},
		{name: "model_context_window", path: "model.MODEL.context_window"},
		{name: "model_auto_compact_token_limit", path: "history.compact_at_tokens"},
		{name: "approval_policy", path: "approval.policy"},
		{name: "approvals_reviewer", path: "guardian.enabled", values: map[string]any{string(protocol.ReviewerAuto): true, string(protocol.ReviewerUser): false}},
		{name: "sandbox_mode", path: "sandbox.mode", values: map[string]any{string(protocol.SandboxFullAccess): fullAccess}},
		{name: "sandbox_workspace_write.writable_roots", path: "sandbox.writable_roots"},
		{name: "sandbox_workspace_write.network_access", path: "sandbox.network"},
		{name: "instructions", path: "instructions.text"},
		{name: "compact_prompt", path: "history.compact_prompt"},
		{name: "review_model", path: "review.model"},
		{name: "project_doc_max_bytes", path: "instructions.max_bytes"},
		{name: "tool_output_token_limit", path: "history.tool_output_tokens"},
	}
}

// key returns the path of an alias in gantry's configuration.
func (a alias) key(cfg *config.Config) []string {
	path := strings.Split(a.path, ".")
	if i := slices.Index(path, "MODEL"); i >= 0 {
		path[i] = cfg.DefaultModel
	}
	return path
}

// wire converts a value of gantry's configuration.
func (a alias) wire(v json.RawMessage) json.RawMessage {
	var scalar any
	if json.Unmarshal(v, &scalar) == nil {
		for theirs, ours := range a.values {
			if ours == scalar {
				return json.RawMessage(strconv.Quote(theirs)) // plain ASCII
			}
		}
	}
	return v
}

// tree builds objects of settings.
type tree map[string]any

func (t tree) set(path []string, v json.RawMessage) {
	for _, name := range path[:len(path)-1] {
		next, ok := t[name].(tree)
		if !ok {
			next = tree{}
			t[name] = next
		}
		t = next
	}
	t[path[len(path)-1]] = v
}

// wireSettings returns settings as clients read them: under codex's names and under gantry's.
func wireSettings(cfg *config.Config, list []config.Setting) tree {
	t := tree{}
	for _, s := range list {
		t.set(append([]string{own}, s.Path...), s.Value)
		for _, a := range aliases() {
			if slices.Equal(a.key(cfg), s.Path) {
				t.set(strings.Split(a.name, "."), a.wire(s.Value))
			}
		}
	}
	return t
}

// keyPath joins the names of a setting, with those in quotation marks that contain a dot.
func keyPath(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteByte('.')
		}
		if strings.ContainsAny(name, `."[`) {
			name = `"` + name + `"`
		}
		b.WriteString(name)
	}
	return b.String()
}

// configRead returns the effective configuration. The settings that clients of codex need are there even if no file has them.
func (s settings) configRead(ctx context.Context, _ *call, p protocol.ConfigReadParams) (out protocol.ConfigReadResponse, err error) {
	cfg, err := s.configuration(ctx, p.Cwd)
	if err != nil {
		return out, err
	}
	list := cfg.Settings()
	t := wireSettings(cfg, list)
	e := effective{cfg: cfg}
	for name, v := range map[string]any{
		"approval_policy": e.approval(), "approvals_reviewer": e.reviewer(), "sandbox_mode": wireMode(cfg.Sandbox.Mode),
	} {
		raw, err := protocol.Marshal(v)
		if err != nil {
			return out, err
		}
		t[name] = json.RawMessage(raw)
	}
	if m := defaultModel(cfg); m != nil {
		t["model"], t["model_provider"] = m.Label, m.Provider
	}
	out.Config = map[string]json.RawMessage{}
	for name, v := range t {
		if out.Config[name], err = json.Marshal(v); err != nil {
			return out, err
		}
	}
	layers, err := s.layers(cfg, list)
	if err != nil {
		return out, err
	}
	out.Origins = map[string]protocol.ConfigLayerMetadata{}
	for _, x := range list {
		l := layerOf(layers, x.From)
		if l == nil {
			continue // built in
		}
		at := protocol.ConfigLayerMetadata{Name: l.Name, Version: l.Version}
		out.Origins[keyPath(append([]string{own}, x.Path...))] = at
		for _, a := range aliases() {
			if slices.Equal(a.key(cfg), x.Path) {
				out.Origins[a.name] = at
			}
		}
	}
	if p.IncludeLayers {
		out.Layers = []protocol.ConfigLayer{}
		for _, l := range layers {
			out.Layers = append(out.Layers, l.ConfigLayer)
		}
	}
	return out, nil
}

// layer is a layer with the file that it comes from.
type layer struct {
	protocol.ConfigLayer
	file config.File
}

// layers returns the layers of a configuration, those with the highest precedence first. The built-in one is left out: it has no file, and
// clients of codex refuse a layer without one.
func (s settings) layers(cfg *config.Config, list []config.Setting) (out []layer, err error) {
	add := func(name protocol.ConfigLayerSourceBody, f config.File, content []config.Setting, version []byte, disabled string) error {
		raw, err := json.Marshal(wireSettings(cfg, content))
		if err != nil {
			return err
		}
		if version == nil {
			version = raw
		}
		out = append(out, layer{protocol.ConfigLayer{
			Name: protocol.ConfigLayerSource{Body: name}, Version: versionOf(version), Config: raw, DisabledReason: orNull(disabled),
		}, f})
		return nil
	}
	var flags []config.Setting
	for _, x := range list {
		if x.From.Layer == config.LayerCommandLine {
			flags = append(flags, x)
		}
	}
	if len(flags) > 0 {
		if err := add(protocol.SessionFlagsLayer{}, config.File{Layer: config.LayerCommandLine}, flags, nil, ""); err != nil {
			return nil, err
		}
	}
	files := slices.Clone(cfg.Files)
	disabled := ""
	if pr := cfg.Project; pr != nil && !pr.Trusted {
		disabled = "the project is not trusted: review it, then run `gantry trust`"
		for _, path := range pr.Files {
			files = append(files, config.File{Layer: config.LayerProject, Path: path})
		}
	}
	if path := s.userFile(); !slices.Contains(files, config.File{Layer: config.LayerUser, Path: path}) && !exists(path) {
		files = append(files, config.File{Layer: config.LayerUser, Path: path}) // it can be written
	}
	slices.SortStableFunc(files, func(a, b config.File) int { return cmp.Compare(a.Layer, b.Layer) })
	for _, f := range slices.Backward(files) {
		var name protocol.ConfigLayerSourceBody
		switch f.Layer {
		case config.LayerSystem:
			name = protocol.SystemLayer{File: f.Path}
		case config.LayerUser:
			name = protocol.UserLayer{File: f.Path}
		case config.LayerProject:
			name = protocol.ProjectLayer{Folder: filepath.Dir(f.Path)}
		case config.LayerFile:
			name = protocol.SessionFlagsLayer{}
		default:
			continue
		}
		text, err := config.ReadFile(f.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		content, ds := config.FileSettings(text, f.Path)
		why := ""
		if f.Layer == config.LayerProject {
			why = disabled
		}
		if ds.HasErrors() {
			why, content = cmp.Or(why, ds.Err().Error()), nil // of a project that is not trusted, whose files do not have to be valid
		}
		if err := add(name, f, content, append([]byte{}, text...), why); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// layerOf returns the layer of a setting; nil: the built-in one.
func layerOf(layers []layer, f config.File) *layer {
	i := slices.IndexFunc(layers, func(l layer) bool { return l.file == f })
	if i < 0 {
		return nil
	}
	return &layers[i]
}

// userFile is the only file that clients can change.
func (s settings) userFile() string { return filepath.Join(s.cfg.Home, "gantry.hcl") }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// versionOf identifies the content of a file. A missing file has the version of an empty one.
func versionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s settings) valueWrite(ctx context.Context, c *call, p protocol.ConfigValueWriteParams) (protocol.ConfigWriteResponse, error) {
	return s.batchWrite(ctx, c, protocol.ConfigBatchWriteParams{Edits: []protocol.ConfigEdit{p.ConfigEdit}, FilePath: p.FilePath, ExpectedVersion: p.ExpectedVersion})
}

// batchWrite changes the user's file: all edits are made, or none. The configuration of the server's folder must be valid with them.
// Threads that are loaded keep the configuration with which they were loaded; new ones have the new one.
func (s settings) batchWrite(ctx context.Context, _ *call, p protocol.ConfigBatchWriteParams) (out protocol.ConfigWriteResponse, err error) {
	path := s.userFile()
	if p.FilePath != nil && filepath.Clean(*p.FilePath) != path {
		return out, refused(protocol.ConfigLayerReadonly, hint.With(fmt.Errorf("only %s can be written", path), "leave filePath out"))
	}
	cfg, err := s.configuration(ctx, nil)
	if err != nil {
		return out, err
	}
	if exists(path) && !slices.Contains(cfg.Files, config.File{Layer: config.LayerUser, Path: path}) {
		return out, refused(protocol.UserLayerNotFound, hint.New("this server does not use the user's file", "start it without the flag for that"))
	}
	changes, err := s.changes(cfg, p.Edits)
	if err != nil {
		return out, err
	}
	var after *config.Config
	err = edit.Update(ctx, path, 0o600, func(old []byte) ([]byte, error) {
		if p.ExpectedVersion != nil && *p.ExpectedVersion != versionOf(old) {
			return nil, refused(protocol.ConfigVersionConflict, hint.With(fmt.Errorf("%s was changed", path), "read the configuration again"))
		}
		text := append([]byte{}, old...)
		for _, c := range changes {
			next, err := edit.Apply(text, path, c.Change)
			if errors.Is(err, edit.ErrNoBlock) && c.codex {
				continue // in codex, the setting is in no block
			}
			if err != nil {
				return nil, refused(codeOf(err), err)
			}
			text = next
		}
		if after, err = s.cfg.Hub.CheckConfiguration(ctx, s.cfg.Workspace, text); err != nil {
			return nil, refused(protocol.ConfigValidationError, err)
		}
		out.Version = versionOf(text)
		return text, nil
	})
	if err != nil {
		return out, err
	}
	out.Status, out.FilePath = protocol.WriteOK, path
	for _, c := range changes {
		over, err := s.overridden(after, c.Change)
		if err != nil {
			return out, err
		}
		if over != nil {
			out.Status, out.OverriddenMetadata = protocol.WriteOKOverridden, over
			over.Message = fmt.Sprintf("%s has a higher precedence and sets %s", over.Message, c.name)
			break
		}
	}
	return out, nil
}

// codeOf returns the code of an error of package edit.
func codeOf(err error) protocol.ConfigWriteErrorCode {
	if _, unknown := errors.AsType[*edit.UnknownError](err); unknown {
		return protocol.ConfigSchemaUnknownKey
	}
	if errors.Is(err, edit.ErrNoBlock) {
		return protocol.ConfigPathNotFound
	}
	return protocol.ConfigValidationError
}

// refused returns the error of a write.
func refused(code protocol.ConfigWriteErrorCode, err error) error {
	text, next := hint.Split(err)
	e := rpc.Errorf(rpc.InvalidRequest, "%s", text)
	e.Data = protocol.ErrorData{ConfigWriteErrorCode: &code, Next: orNull(next)}
	return e
}

// changes converts edits. Settings of the default model are those of the model that an edit before them makes the default.
func (s settings) changes(cfg *config.Config, edits []protocol.ConfigEdit) (out []namedChange, err error) {
	with := *cfg
	for _, e := range edits {
		list, err := s.change(&with, e)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if label, ok := c.Value.(string); ok && slices.Equal(c.Path, []string{"default_model"}) {
				with.DefaultModel = label
			}
		}
		out = append(out, list...)
	}
	return out, nil
}

// change converts an edit.
func (s settings) change(cfg *config.Config, e protocol.ConfigEdit) ([]namedChange, error) {
	d := json.NewDecoder(bytes.NewReader(e.Value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, refused(protocol.ConfigValidationError, fmt.Errorf("the value of %q is invalid: %w", e.KeyPath, err))
	}
	path, err := config.SplitPath(e.KeyPath)
	if err != nil {
		return nil, refused(protocol.ConfigValidationError, err)
	}
	replace := e.MergeStrategy == protocol.MergeReplace
	if out, err := codexChanges(cfg, e.KeyPath, v, replace); err != nil || out != nil {
		return out, err
	}
	if path[0] == "projects" {
		return nil, refused(protocol.ConfigSchemaUnknownKey, hint.New("trust in a project is no setting", "review the project, then run `gantry trust` in it"))
	}
	if path[0] == own {
		path = path[1:]
	}
	return []namedChange{{Change: edit.Change{Path: path, Value: v, Replace: replace}, name: e.KeyPath}}, nil
}

// codexChanges converts an edit of a setting with codex's name, or of an object of them; nil: it is none.
func codexChanges(cfg *config.Config, name string, v any, replace bool) (out []namedChange, err error) {
	members, object := v.(map[string]any)
	if object {
		for _, a := range aliases() {
			member, ok := strings.CutPrefix(a.name, name+".")
			if !ok {
				continue
			}
			if value, set := members[member]; set || replace {
				inner, err := codexChanges(cfg, a.name, value, replace)
				if err != nil {
					return nil, err
				}
				out = append(out, inner...)
				delete(members, member)
			}
		}
		for member := range members {
			if out != nil {
				return nil, refused(protocol.ConfigSchemaUnknownKey, &edit.UnknownError{Path: name + "." + member, Next: "leave it out"})
			}
		}
		return out, nil
	}
	i := slices.IndexFunc(aliases(), func(a alias) bool { return a.name == name })
	if i < 0 {
		return nil, nil
	}
	a := aliases()[i]
	path := a.key(cfg)
	if slices.Contains(path, "") {
		return nil, refused(protocol.ConfigPathNotFound, hint.New("there is no default model", "write model first"))
	}
	if text, ok := v.(string); ok {
		if ours, ok := a.values[text]; ok {
			v = ours
		}
	}
	return []namedChange{{Change: edit.Change{Path: path, Value: v, Replace: replace}, name: name, codex: true}}, nil
}

// overridden returns the layer that has precedence over a change; nil: the change has effect.
func (s settings) overridden(cfg *config.Config, c edit.Change) (*protocol.OverriddenMetadata, error) {
	if c.Value == nil {
		return nil, nil
	}
	list := cfg.Settings()
	for _, x := range list {
		if x.From.Layer <= config.LayerUser || len(x.Path) < len(c.Path) || !slices.Equal(x.Path[:len(c.Path)], c.Path) || !has(c.Value, x.Path[len(c.Path):]) {
			continue
		}
		layers, err := s.layers(cfg, list)
		if err != nil {
			return nil, err
		}
		l := layerOf(layers, x.From)
		if l == nil {
			return nil, fmt.Errorf("the layer of %s is unknown", keyPath(x.Path))
		}
		return &protocol.OverriddenMetadata{
			Message: cmp.Or(x.From.Path, "the command line"), OverridingLayer: protocol.ConfigLayerMetadata{Name: l.Name, Version: l.Version}, EffectiveValue: x.Value,
		}, nil
	}
	return nil, nil
}

// has reports whether a value has a member at path.
func has(v any, path []string) bool {
	for _, name := range path {
		members, ok := v.(map[string]any)
		if !ok {
			return false
		}
		if v, ok = members[name]; !ok || v == nil {
			return false
		}
	}
	return true
}
