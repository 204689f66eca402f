// Package contract contains the Go types of the contract between the host and its plugins: manifests, tool descriptors,
// effects, items, results and diagnostics.
//
// It owns: the meaning of these types, their validation, and the canonical form of a manifest with its digest. It must not
// know: gRPC or generated types (sdk/wire/convert translates them), how a plugin is served, what the host does with the
// data.
//
// Plugin authors use most of these types through aliases in sdk/tool and sdk/provider. Start with [Manifest] and [Result].
package contract

import (
	"encoding/json"
	"slices"
	"strings"
)

// Version is the contract version that this module implements.
const Version = 1

// Kind is the kind of a plugin.
type Kind int

// The kinds.
const (
	KindUnknown Kind = iota
	KindTool
	KindProvider
)

var kindNames = [...]string{"unknown", "tool", "provider"}

// String returns "tool", "provider" or "unknown".
func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

// Severity is the severity of a diagnostic.
type Severity int

// The severities; an unknown value means error.
const (
	SeverityUnknown Severity = iota
	SeverityError
	SeverityWarning
)

// Diagnostic is a message about a configuration or an operation. The host maps Path to a file and line.
type Diagnostic struct {
	Severity Severity
	Summary  string // one line without a full stop
	Detail   string // whole sentences; may be empty
	Path     []Step // within the config block; empty: the block itself
	Next     string // what to do, one sentence; may be empty
}

// Step is one step of an attribute path. Kind selects which of Name, Key and Index is used.
type Step struct {
	Kind  StepKind
	Name  string // attribute or block name
	Key   string // map key or block label
	Index int64  // list index, or number of a block among its equals, from 0
}

// StepKind says which field of a [Step] is used.
type StepKind int

// The kinds of steps.
const (
	StepUnknown StepKind = iota
	StepName
	StepKey
	StepIndex
)

// Name, Key and Index return path steps.
func Name(s string) Step { return Step{Kind: StepName, Name: s} }
func Key(s string) Step  { return Step{Kind: StepKey, Key: s} }
func Index(i int64) Step { return Step{Kind: StepIndex, Index: i} }

// Limits are limits that one side announces to the other. 0 means the default given at the field.
type Limits struct {
	MaxMessageBytes  int64 `json:"maxMessageBytes,omitempty"`  // largest message received; default 16 MiB
	MaxInlineBytes   int64 `json:"maxInlineBytes,omitempty"`   // largest inline result part; default 1 MiB
	MaxOutputBytes   int64 `json:"maxOutputBytes,omitempty"`   // most output deltas of one call; default 8 MiB
	StartMS          int64 `json:"startMs,omitempty"`          // Describe plus Configure; default 10000
	StopMS           int64 `json:"stopMs,omitempty"`           // default 2000
	CallMS           int64 `json:"callMs,omitempty"`           // 0: no limit of its own
	MaxParallelCalls int32 `json:"maxParallelCalls,omitempty"` // 0: any number
}

// Manifest is a plugin's description of itself. It does not depend on configuration, time or place.
type Manifest struct {
	Name             string        `json:"name"`    // lower-case letters, digits, dashes; 1 to 64; starts with a letter
	Version          string        `json:"version"` // semantic version
	Kind             Kind          `json:"kind,omitempty"`
	ContractVersions []uint32      `json:"contractVersions,omitempty"`
	Description      string        `json:"description,omitempty"`
	Config           ConfigBlock   `json:"config,omitzero"`
	Capabilities     []string      `json:"capabilities,omitempty"` // "spawn", "network", "sample", "call-tools", "ask", "secrets", "state", ...
	HostServices     []string      `json:"hostServices,omitempty"` // names of RPCs of HostService
	Limits           Limits        `json:"limits,omitzero"`
	Instructions     string        `json:"instructions,omitempty"` // for the model; untrusted; at most 8192 bytes
	Commands         []CommandSpec `json:"commands,omitempty"`
	Handover         bool          `json:"handover,omitempty"`
	Tools            []Descriptor  `json:"tools,omitempty"` // offered regardless of the configuration
}

// CommandSpec declares a command.
type CommandSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"` // empty: an object without properties
	SideEffects bool            `json:"sideEffects,omitempty"`
	CallsTool   bool            `json:"callsTool,omitempty"` // it goes on with a call of a tool
}

// ConfigBlock is the schema of a block.
type ConfigBlock struct {
	Description string              `json:"description,omitempty"`
	Attributes  []ConfigAttribute   `json:"attributes,omitempty"`
	Blocks      []ConfigNestedBlock `json:"blocks,omitempty"`
}

// IsZero reports whether the block is empty: it has no attributes, blocks or description.
func (b ConfigBlock) IsZero() bool {
	return b.Description == "" && len(b.Attributes) == 0 && len(b.Blocks) == 0
}

// HasSecrets reports whether the block, or a block inside it, has a sensitive attribute.
func (b ConfigBlock) HasSecrets() bool {
	return slices.ContainsFunc(b.Attributes, func(a ConfigAttribute) bool { return a.Sensitive }) ||
		slices.ContainsFunc(b.Blocks, func(n ConfigNestedBlock) bool { return n.Block.HasSecrets() })
}

// ConfigEdit sets or removes an argument or a block of a plugin's own settings.
type ConfigEdit struct {
	// Path is the name of the argument or block, after the names of the blocks around it, each followed by its label if it has one.
	Path []string
	// Value is JSON. A block is an object of its arguments and blocks, and replaces what the block has. In the value of an argument, an
	// object {"$env": "NAME"}, {"$env": "NAME", "$default": "TEXT"} or {"$secret": "NAME"} is a reference. Nil removes the argument or block.
	Value json.RawMessage
}

// NextCommand is a command of a plugin that continues another one.
type NextCommand struct {
	Name  string
	Input json.RawMessage // JSON object
	Tool  bool            // the name is that of a tool, which is called in a thread
}

// ConfigAttribute is one attribute of a block.
type ConfigAttribute struct {
	Name        string          `json:"name"`           // lower_snake
	Type        json.RawMessage `json:"type,omitempty"` // cty JSON: "string", ["list","number"], ["object",{"a":"bool"}]
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"` // empty: null
	Sensitive   bool            `json:"sensitive,omitempty"`
	Allowed     []string        `json:"allowed,omitempty"`    // for strings; empty: any
	Deprecated  string          `json:"deprecated,omitempty"` // what to use instead; empty: not deprecated
	// Path declares that a string is a path on this machine, which the host makes absolute.
	Path bool `json:"path,omitempty"`
	// Endpoint declares that a string, or each string of a list, set or map, is the URL of a service that the plugin reaches through the
	// host. The host lets it connect to the URL's host.
	Endpoint bool `json:"endpoint,omitempty"`
}

// ConfigNestedBlock is a type of nested block. Its value is a list of objects, or a single object if MaxItems is 1.
type ConfigNestedBlock struct {
	Name     string      `json:"name"`
	Block    ConfigBlock `json:"block,omitzero"`
	MinItems int32       `json:"minItems,omitempty"`
	MaxItems int32       `json:"maxItems,omitempty"` // 0: any number
	Labels   []string    `json:"labels,omitempty"`
	// Process declares that each block may declare a process, whose settings the host reads; see [IsProcessSetting].
	Process bool `json:"process,omitempty"`
}

// processSettings are the attributes and blocks that the host reads in a block that declares a process.
var processSettings = []string{"command", "args", "env", "cwd", "sandbox", "limits"}

// IsProcessSetting reports whether the host itself reads an attribute or a block of this name in a block with
// [ConfigNestedBlock.Process]: "command", "args", "env", "cwd", "sandbox" or "limits".
func IsProcessSetting(name string) bool { return slices.Contains(processSettings, name) }

// ProcessName returns the name of the process that a block declares: the block's name and its label, for example "server.github".
func ProcessName(block string, labels ...string) string {
	return strings.Join(append([]string{block}, labels...), ".")
}

// Exposure says how a tool is made available to the model.
type Exposure int

// The exposures; an unknown value means direct.
const (
	ExposureUnknown Exposure = iota
	ExposureDirect
	ExposureDeferred
	ExposureHidden
)

// Nesting says who may call a tool: the model, or other calls, for example those of code.
type Nesting int

// The values of [Nesting]; an unknown value means both.
const (
	NestingUnknown Nesting = iota
	NestingBoth
	NestingNever // only the model
	NestingOnly  // only other calls; the model neither sees nor finds the tool
)

// Freeform describes a tool that takes raw text in a grammar.
type Freeform struct {
	Syntax     string `json:"syntax,omitempty"` // "lark", "regex" or empty: any text
	Definition string `json:"definition,omitempty"`
	Property   string `json:"property,omitempty"` // name of the string property for providers without grammars
}

// Descriptor declares a tool.
type Descriptor struct {
	Name                string            `json:"name"`                // letters, digits, underscores; 1 to 64
	Namespace           string            `json:"namespace,omitempty"` // empty: the default one
	Description         string            `json:"description,omitempty"`
	InputSchema         json.RawMessage   `json:"inputSchema,omitempty"` // JSON Schema 2020-12 of an object; empty for freeform
	Freeform            *Freeform         `json:"freeform,omitempty"`
	OutputSchema        json.RawMessage   `json:"outputSchema,omitempty"`
	Exposure            Exposure          `json:"exposure,omitempty"`
	Nesting             Nesting           `json:"nesting,omitempty"`
	SearchText          string            `json:"searchText,omitempty"`
	Effects             []Effect          `json:"-"`                // of every call; ignored with Assess; "effects" in JSON
	Assess              bool              `json:"assess,omitempty"` // Assess is asked before each call
	ParallelSafe        bool              `json:"parallelSafe,omitempty"`
	SerialGroup         string            `json:"serialGroup,omitempty"`
	ReadOnly            bool              `json:"readOnly,omitempty"` // every call; ignored with Assess
	AbortReadsAsCommand bool              `json:"abortReadsAsCommand,omitempty"`
	HookName            string            `json:"hookName,omitempty"`
	HookAliases         []string          `json:"hookAliases,omitempty"`
	HookFields          map[string]string `json:"hookFields,omitempty"` // hook field → argument
	ModelTraits         []string          `json:"modelTraits,omitempty"`
	Source              string            `json:"source,omitempty"`
	LenientArguments    bool              `json:"lenientArguments,omitempty"`   // unknown properties are passed on instead of being rejected
	UncheckedArguments  bool              `json:"uncheckedArguments,omitempty"` // any JSON object is passed on; the schema is only shown
	EffectsByHost       bool              `json:"effectsByHost,omitempty"`      // all effects are requests to the host with the call's token
	Changes             string            `json:"changes,omitempty"`            // since the last call, for people; up to 4096 bytes; approvals are not bound to it
}

// SourceState is the state of a tool source.
type SourceState int

// The states; an unknown value means ready.
const (
	SourceUnknown SourceState = iota
	SourceStarting
	SourceReady
	SourceNeedsLogin
	SourceFailed
)

var sourceNames = [...]string{"ready", "starting", "ready", "needs_login", "failed"}

// String returns "starting", "ready", "needs_login" or "failed".
func (s SourceState) String() string { return nameOf(sourceNames[:], int(s)) }

// Source is a provider of tools with its own state, for example an MCP server.
type Source struct {
	Name     string
	State    SourceState
	Message  string
	Required bool
	Title    string // for people
	// Description is what the source says of itself and its tools, such as the instructions of an MCP server. Models get it as the
	// description of the tools' namespaces, marked as the source's: up to 512 KiB, or 16 KiB if the model's format has no
	// descriptions of namespaces.
	Description string
	Prompts     []SourcePrompt // that the source offers to people; the host uses the first 256
	Resources   bool           // whether the source has resources
}

// SourcePrompt is a template of messages that people choose, for example as a command of a user interface. The plugin's command
// "prompt" fills it in; see the message of this name in tool.proto.
type SourcePrompt struct {
	Name, Title, Description string
	Arguments                []SourcePromptArgument
}

// SourcePromptArgument is an argument of a prompt. Its value is a text.
type SourcePromptArgument struct {
	Name, Title, Description string
	Required                 bool
}

// ToolSet is the set of tools that Watch sends.
type ToolSet struct {
	Revision string
	Tools    []Descriptor
	Sources  []Source
}
