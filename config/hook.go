package config

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/schema"
)

// Hooks are programs of the user that observe events and may block actions.
type Hooks struct {
	ManagedOnly bool   // only hooks from the machine's own files run
	OnError     string // default for hooks that do not set it: "proceed" or "block"; empty: depends on the hook's layer
	Login       bool   // run hooks in a login shell, which reads the user's profile
	Blocks      []*Hook
	// Files are the hooks.json files next to the configuration files. They may not exist.
	Files []HookFile
}

// HookFile is a hooks.json next to a configuration file.
type HookFile struct {
	Path  string // absolute
	Layer Layer
}

// Hook is a hook block. Either it has an Event and a Command or Prompt, or it names a File that contains hooks.
type Hook struct {
	Label   string
	Event   string
	Matcher string // empty: everything
	Command string
	Prompt  string // for a model that judges, instead of a command
	Agent   bool   // the model may read files
	Model   string // label; empty: the guardian's model, or the thread's
	File    string // absolute; empty: the block itself is the hook
	Timeout time.Duration
	Async   bool
	OnError string // "proceed" or "block"; empty: [Hooks.OnError]
	Status  string
	// ContextTokens is how many tokens of the hook's context for the model are kept in the conversation. nil: not set; 0:
	// unlimited.
	ContextTokens *int64
	// Files are files and folders that the command runs in addition to those that gantry finds in it. nil: not set; empty: none.
	Files   []string
	Enabled bool
	Layer   Layer  // the lowest layer that has the block
	Path    string // the file of that layer; absolute, empty for the command line
	Range   Range
}

const hooksFile = "hooks.json"

// hooks reads the hook blocks. No layer above the machine's file can change or remove one of its hooks, and a project cannot
// change one of the user's.
func (l *loader) hooks(d *decoder, root *node, settings block) Hooks {
	h := Hooks{ManagedOnly: settings.flag("managed_only", false), OnError: settings.text("on_error"), Login: settings.flag("login_shell", false)}
	if system := l.system.block(schema.BlockHooks); system != nil {
		h.ManagedOnly = h.ManagedOnly || d.block(system, settings.schema).flag("managed_only", false)
	}
	for _, n := range root.labelled(schema.BlockHook) {
		h.Blocks = append(h.Blocks, l.hook(d.block(n, n.schema)))
	}
	if l.o.System != "-" {
		h.Files = append(h.Files, HookFile{filepath.Join(filepath.Dir(l.o.System), hooksFile), LayerSystem})
	}
	if !l.o.NoUser {
		h.Files = append(h.Files, HookFile{filepath.Join(l.home, hooksFile), LayerUser})
	}
	top := l.dir
	if l.project != nil {
		top = l.project.Dir
	}
	if path := filepath.Join(top, projectDir, hooksFile); filepath.Dir(path) != l.home {
		h.Files = append(h.Files, HookFile{path, LayerProject})
	}
	return h
}

func (l *loader) hook(b block) *Hook {
	h := &Hook{Label: b.n.label, Range: l.files.Range(b.n.header), Enabled: b.flag("enabled", true)}
	b.label()
	low, high, ofProject := Layer(math.MaxInt), LayerUnknown, false
	for _, s := range b.n.attrs {
		if s.from.layer < low {
			low = s.from.layer
			h.Path = ""
			if s.from.layer != LayerCommandLine {
				h.Path = filepath.Join(s.from.dir, filepath.Base(s.at.Filename))
			}
		}
		high, ofProject = max(high, s.from.layer), ofProject || s.from.layer == LayerProject
	}
	h.Layer = low
	switch {
	case low == LayerSystem && high > LayerSystem:
		b.errorAt(b.n.header, fmt.Sprintf("hook %q is defined by the machine", h.Label), "The system's file defines it, and no other file can change "+
			"it.", "choose another label")
	case low < LayerProject && ofProject:
		b.errorAt(b.n.header, fmt.Sprintf("hook %q is defined by the user", h.Label), "The user's file defines it, and a project can't change it.", "choose another label")
	}
	h.Event, h.Matcher, h.Command, h.Status = b.text("event"), b.text("matcher"), b.text("command"), b.text("status")
	h.Timeout, h.Async, h.OnError = b.duration("timeout"), b.flag("async", false), b.text("on_error")
	if b.has("context_tokens") {
		n := b.integer("context_tokens")
		h.ContextTokens = &n
	}
	if b.has("files") {
		h.Files = texts(b.list("files"))
	}
	what := key{b.n.schema.Name, h.Label}
	if b.has("file") {
		h.File = b.path("file", l.sources.Home)
		for _, name := range []string{"event", "matcher", "command", "prompt", "agent", "model", "async", "status", "timeout", "context_tokens", "files"} {
			if b.has(name) {
				b.errorAt(b.at(name), fmt.Sprintf("%q has no effect together with \"file\"", name), "The hooks in the file set it themselves.",
					"remove one of the two")
			}
		}
		return h
	}
	h.Prompt, h.Agent, h.Model = b.text("prompt"), b.flag("agent", false), b.text("model")
	if !b.has("prompt") {
		b.require(what, l.siblings(b.n), "event", "command")
		for _, name := range []string{"agent", "model"} {
			if b.has(name) {
				b.errorAt(b.at(name), fmt.Sprintf("%q has no effect together with \"command\"", name), "It is only for hooks that ask a model.", "remove one of the two, or set \"prompt\" instead of \"command\"")
			}
		}
	} else {
		b.require(what, l.siblings(b.n), "event", "prompt")
		if b.has("command") {
			b.errorAt(b.at("command"), "\"command\" has no effect together with \"prompt\"", "A hook either runs a program or asks a model.", "remove one of the two")
		}
		if h.Event != "" && !slices.Contains(schema.PromptEvents, h.Event) {
			b.errorAt(b.at("event"), "invalid value for \"event\"", fmt.Sprintf("A model can't decide on %s, because a negative answer would "+
				"have no effect.", h.Event),
				"set \"command\", or use one of "+diag.Quoted(schema.PromptEvents))
		}
	}
	if h.Timeout != 0 && h.Timeout < time.Second {
		b.errorAt(b.at("timeout"), "invalid value for \"timeout\"", "The minimum is one second.", "set \"10s\", for example")
	}
	if _, err := regexp.Compile(h.Matcher); err != nil && h.Matcher != "*" {
		b.errorAt(b.at("matcher"), "invalid value for \"matcher\"", "It is not a valid regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: ")+".",
			"use names, for example \"Bash|apply_patch\", or a regular expression")
	}
	return h
}

// path reads a single path and makes it absolute.
func (b block) path(name, home string) string {
	text, ok := b.string(name)
	if !ok {
		return ""
	}
	p := filepath.FromSlash(text)
	switch {
	case text == "":
		b.errorAt(b.at(name), fmt.Sprintf("invalid value for %q", name), "The path is empty.", "specify a folder or a file")
		return ""
	case !b.inHome(text, b.at(name), home):
		return ""
	case strings.HasPrefix(text, "~/"):
		p = filepath.Join(home, p[2:])
	case !filepath.IsAbs(p):
		p = filepath.Join(b.n.attrs[name].from.scope.Base(), p)
	}
	return filepath.Clean(p)
}
