package schema

// The names of blocks.
const (
	BlockProvider     = "provider"
	BlockPlugin       = "plugin"
	BlockModel        = "model"
	BlockApproval     = "approval"
	BlockGranular     = "granular"
	BlockSandbox      = "sandbox"
	BlockEnvironment  = "environment"
	BlockSet          = "set"
	BlockSecrets      = "secrets"
	BlockNetwork      = "network"
	BlockProcesses    = "processes"
	BlockLimits       = "limits"
	BlockBudget       = "budget"
	BlockHistory      = "history"
	BlockInstructions = "instructions"
	BlockCodemode     = "codemode"
	BlockAgent        = "agent"
	BlockAgents       = "agents"
	BlockInteraction  = "interaction"
	BlockGoals        = "goals"
	BlockTUI          = "tui"
	BlockKeys         = "keys"
	BlockReview       = "review"
	BlockGuardian     = "guardian"
	BlockHooks        = "hooks"
	BlockHook         = "hook"
	BlockStore        = "store"
	BlockRetention    = "retention"
	BlockProfile      = "profile"
	BlockConfig       = "config"
	BlockEnv          = "env"
	BlockPermissions  = "permissions"
	BlockTool         = "tool"
)

// The values of some arguments.
var (
	toolApprovals    = []string{ApprovalAuto, "prompt", "writes", "approve", "deny"}
	approvalPolicies = []string{"untrusted", "on-request", "on-failure", "granular", "never"}
	sandboxModes     = []string{"read-only", "workspace-write", SandboxFullAccess}
	transports       = []string{"peercred", "mtls"}
	hookErrors       = []string{"proceed", "block"}
	// PromptEvents are the events for which a hook can be a prompt.
	PromptEvents = []string{"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop"}
	hookEvents   = []string{
		"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact", "PostCompact",
		"Stop", "SubagentStart", "SubagentStop", "Interrupt", "Notification",
	}
	inheritance    = []string{InheritAll, InheritCore, InheritNone}
	codemodes      = []string{CodemodeOff, CodemodeOn, CodemodeOnly}
	toolModes      = []string{"direct", "code", "code-only"}
	networkModes   = []string{NetworkNone, NetworkProxy, NetworkFull}
	networkMethods = []string{MethodsFull, MethodsLimited}
	unknownHosts   = []string{UnknownAsk, UnknownPublic, UnknownDeny}
)

// SandboxFullAccess is the sandbox mode without a sandbox.
const SandboxFullAccess = "full-access"

// Values of the network block's mode, methods and unknown.
const (
	NetworkNone    = "none"
	NetworkProxy   = "proxy"
	NetworkFull    = "full"
	MethodsFull    = "full"
	MethodsLimited = "limited"
	UnknownAsk     = "ask"
	UnknownPublic  = "public"
	UnknownDeny    = "deny"
)

// Values of the codemode block's mode.
const (
	CodemodeOff  = "off"
	CodemodeOn   = "on"
	CodemodeOnly = "only"
)

// Values of the agents block's tools.
const (
	AgentsNone = "none"
	AgentsV2   = "v2"
)

// Values of the agents block's unfinished.
const (
	UnfinishedLeave  = "leave"
	UnfinishedRemind = "remind"
	UnfinishedWait   = "wait"
)

// ApprovalAuto makes the approval of a tool's calls depend on the tool's own declarations.
const ApprovalAuto = "auto"

// Values of the environment block's inherit.
const (
	InheritAll  = "all"
	InheritCore = "core"
	InheritNone = "none"
)

// The drivers of the store.
const (
	DriverSQLite   = "sqlite"
	DriverPostgres = "postgres"
)

// Root returns the description of a file's top level. Each call returns a new table.
func Root() *Block {
	root := settings()
	profile := settings()
	profile.Name, profile.Label = BlockProfile, "name"
	profile.Doc = "Settings that apply on top of all files when the profile is selected with `--profile NAME`. `-c` overrides them. A " +
		"profile accepts everything that a file accepts, except profiles."
	root.Blocks = append(root.Blocks, profile)
	return root
}

func settings() *Block {
	return &Block{
		Doc: "If two layers set the same argument, the later one wins: built-in, /etc/gantry/gantry.hcl, ~/.gantry/gantry.hcl, " +
			".gantry/gantry.hcl of a trusted project, --config FILE, --profile NAME, -c NAME=VALUE.",
		Attributes: []Attribute{
			{Name: "default_model", Kind: String, Default: `(the model "default", or the only one there is)`,
				Doc: "Label of the model that a new thread uses."},
		},
		Blocks: []*Block{
			provider(), plugin(), model(),
			{
				Name: BlockApproval, Doc: "When gantry asks for approval.",
				Attributes: []Attribute{
					{Name: "policy", Kind: String, Default: `"on-request"`, Allowed: approvalPolicies,
						Doc: "`untrusted`: before every call that does more than read. `on-request`: when a call needs more than its grant; " +
							"`on-failure` is an alias. `granular`: the same, restricted to the kinds of questions in `granular`. `never`: " +
							"never; calls that need approval are refused. Rules take precedence under every policy; see the guide on " +
							"approvals and rules."},
					{Name: "safe_commands", Kind: Bool, Default: "false",
						Doc: "Whether `untrusted` runs commands that only read, such as `ls` and `git status`, without approval. `gantry policy " +
							"check COMMAND` shows whether a command is one of them."},
					{Name: "additional_permissions", Kind: Bool, Default: "true",
						Doc: "Whether a model may request additional permissions, such as a writable folder or the network: together with a " +
							"command, or beforehand for the commands of a turn or a session."},
					{Name: "timeout", Kind: Duration, Doc: "How long a question waits for an answer, such as `\"30m\"`. After that it is refused. " +
						"By default it waits as long as its turn runs and a client is there, or may come back."},
				},
				Blocks: []*Block{{
					Name: BlockGranular, Doc: "Questions that are asked under the policy `granular`. Anything set to false is refused instead.",
					Attributes: []Attribute{
						{Name: "sandbox_approval", Kind: Bool, Required: true, Doc: "Questions about running outside the sandbox, and about retrying there " +
							"after the sandbox has blocked a command."},
						{Name: "rules", Kind: Bool, Required: true, Doc: "Questions required by rules."},
						{Name: "mcp_elicitations", Kind: Bool, Required: true, Doc: "Questions from MCP servers and other plugins."},
						{Name: "request_permissions", Kind: Bool, Default: "false", Doc: "Questions about permissions that are requested before the calls that " +
							"need them."},
					},
				}},
			},
			{
				Name: BlockSandbox, Doc: "What processes started by tools may do.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: `"workspace-write"`, Allowed: sandboxModes,
						Doc: "`read-only`: commands can't write. `workspace-write`: they can write to the working folder, `writable_roots` and a " +
							"private /tmp. `full-access`: they can do everything that you can. The first two require bubblewrap on Linux, " +
							"and nothing on macOS; if the mode can't be enforced, no process is started, and the message says why."},
					{Name: "writable_roots", Kind: List, Default: "[]",
						Doc: "Folders that are writable in addition to the working folder. Relative paths start from the same folder as `./` paths " +
							"in the file."},
					{Name: "readable_roots", Kind: List, Default: "(everything)",
						Doc: "Folders and files that are readable. If there are any, nothing else is readable except the working folder, " +
							"`writable_roots`, and the system's programs and libraries (/usr, /bin, /lib, /etc and similar)."},
					{Name: "deny_read", Kind: List, Default: "[]",
						Doc: "Files and folders that commands can neither read nor write, regardless of approvals: paths, or patterns in which `*`, " +
							"`?` and `[...]` match parts of a name and `**` matches any number of folders. A pattern that doesn't start " +
							"with `/`, `~/` or `./` applies below the working folder and the other roots. Applies in every mode; users " +
							"can't override denials in /etc/gantry."},
					{Name: "deny_write", Kind: List, Default: "[]",
						Doc: "Files and folders that sandboxed commands can't write, in the same format. A path that doesn't exist can't be created " +
							"either; a pattern only matches existing files. It has no effect under `full-access`, and on commands that " +
							"were allowed to run outside the sandbox."},
					{Name: "network", Kind: Bool, Default: "false", Doc: "Whether the network is reachable in modes other than `full-access`."},
					{Name: "require_landlock", Kind: Bool, Default: "false",
						Doc: "Whether modes other than `full-access` require Landlock, the kernel's access control in addition to the mounts. If " +
							"false, the sandbox works without it on kernels that lack it, and `gantry sandbox explain` says so."},
				},
			},
			{
				Name: BlockNetwork,
				Doc: "Network access of processes started by tools, in sandbox modes other than `full-access`. Host patterns: `example.com` " +
					"matches only that host, `*.example.com` its subdomains, `**.example.com` both, and `*` any host; a suffix " +
					"`:PORT` restricts the port.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: "(according to `sandbox.network`)", Allowed: networkModes,
						Doc: "`none`: no access. `proxy`: access to hosts according to `allow` and `deny`, through gantry's proxy, which the usual " +
							"environment variables name. `full`: unrestricted access."},
					{Name: "allow", Kind: List, Default: "[]",
						Doc: "Patterns of hosts that are allowed. gantry asks about other hosts, unless `approval` never asks. Addresses of this " +
							"machine and of private networks must be listed literally: `\"127.0.0.1\"`, `\"localhost\"`."},
					{Name: "deny", Kind: List, Default: "[]", Doc: "Patterns of hosts that are refused without asking, regardless of `allow`."},
					{Name: "methods", Kind: String, Default: `"full"`, Allowed: networkMethods,
						Doc: "`limited`: only GET, HEAD and OPTIONS over plain HTTP; HTTPS can't be inspected, so it is refused."},
					{Name: "local", Kind: Bool, Default: "false", Doc: "Whether allowed names may resolve to this machine or to private networks."},
				},
			},
			environment(),
			{
				Name: BlockSecrets, Doc: "How secrets in tool output are handled. Models, events and clients get `[REDACTED_SECRET]` instead. " +
					"Secrets are always redacted in logs, regardless of these settings.",
				Attributes: []Attribute{
					{Name: "redact", Kind: Bool, Default: "true",
						Doc: "Redacts known values: keys in `provider` and `plugin` blocks, stored secrets that were used, and variables whose " +
							"names `environment` treats as secret. Values of fewer than 8 characters are not redacted."},
					{Name: "redact_patterns", Kind: Bool, Default: "true",
						Doc: "Also redacts text that looks like a key: `Bearer ...`, `sk-...`, `AKIA...`, `ghp_...`, and values assigned to names " +
							"such as `password` that contain letters and digits and don't look like code. Turn it off if it interferes " +
							"with editing files."},
				},
			},
			{
				Name: BlockLimits, Doc: "Limits of a turn, and of each command or other process that is started for a tool, including its " +
					"descendants. Omitted limits don't apply.",
				Attributes: []Attribute{
					{Name: "samplings", Kind: Integer,
						Doc: "Requests to the model in one turn. A turn that needs more fails, but the thread can be continued. 0: unlimited."},
					{Name: "turn_time", Kind: Duration,
						Doc: "Duration of one turn, including everything that it waits for, such as your answers. A turn that takes longer fails, " +
							"but the thread can be continued."},
					{Name: "busy_wait", Kind: Duration, Default: `"5m"`,
						Doc: "How long a turn waits in total for a vendor that limits the rate of requests, is overloaded or fails, with growing delays " +
							"of up to a minute, or the vendor's own. With a fallback model it doesn't wait. \"0s\": a few retries within seconds."},
					{Name: "offline_wait", Kind: Duration, Default: "(as long as a client can stop it)",
						Doc: "How long a turn waits for an unreachable model before normal retries start. By default, a turn waits as long as a " +
							"client that answers questions is connected to the thread; without one, as under `gantry exec`, it doesn't " +
							"wait."},
					{Name: "memory", Kind: Size, Doc: "Memory that a command and its descendants may use together; a command that exceeds it is " +
						"ended."},
					{Name: "pids", Kind: Integer, Doc: "Number of its processes and threads; a command that exceeds it is ended."},
					{Name: "cpu_time", Kind: Duration, Doc: "Total processor time of its processes, in whole seconds; then they are ended."},
					{Name: "open_files", Kind: Integer, Doc: "Open files per process."},
					{Name: "file_size", Kind: Size, Doc: "Size of each file that is written; a process that exceeds it is ended."},
					{Name: "output", Kind: Size, Default: `"8MiB"`, Doc: "Output of a call that is shown while it runs; can't exceed the " +
						"default. If there is more, the model still gets the beginning and the end."},
				},
			},
			{
				Name: BlockBudget,
				Doc: "Model usage allowed for a thread. A turn that reaches a limit ends before its next request, never in the middle of one; " +
					"requests of plugins count, too. Limits that are omitted or 0 don't apply.",
				Attributes: []Attribute{
					{Name: "tokens", Kind: Integer, Doc: "Tokens of all requests of the thread: input and output, including cached tokens."},
					{Name: "usd", Kind: Number, Doc: "US dollars for all requests of the thread. Answers of models without known prices aren't " +
						"counted; a warning says so."},
					{Name: "turn_tokens", Kind: Integer, Doc: "Tokens per turn."},
					{Name: "turn_usd", Kind: Number, Doc: "US dollars per turn."},
				},
			},
			{
				Name: BlockCodemode, Doc: "Scripts that call tools: with the tool `exec`, a model writes one JavaScript program instead of many calls. Each " +
					"script runs in a process of its own that can't reach files or the network.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: `"off"`, Allowed: codemodes, Doc: "`on`: models are offered `exec` and `wait` in addition to the " +
						"other tools. `only`: they call the other tools only in scripts. A model's `tool_mode` takes precedence."},
					{Name: "memory", Kind: Size, Default: `"128MiB"`, Doc: "Memory of a script; a script that needs more fails."},
					{Name: "cpu_time", Kind: Duration, Default: `"10s"`, Doc: "Processor time of a script. It does not pass while the script waits for tools."},
					{Name: "wall_time", Kind: Duration, Default: `"30m"`, Doc: "How long a script may exist."},
					{Name: "yield", Kind: Duration, Default: `"30s"`, Doc: "After this time the model gets what a script has output so far, and can wait for " +
						"more with `wait`. A script may set its own."},
				},
			},
			interaction(),
			goals(),
			terminal(),
			{
				Name: BlockAgents, Doc: "Agents that a model spawns: threads of their own that work for it in the same folder, with at most its rights.",
				Attributes: []Attribute{
					{Name: "tools", Kind: String, Default: `"v2"`, Allowed: []string{AgentsV2, AgentsNone}, Doc: "`v2`: models are offered the tools `spawn_agent`, " +
						"`send_message`, `followup_task`, `wait_agent`, `interrupt_agent` and `list_agents`."},
					{Name: "max_threads", Kind: Integer, Default: "4", Doc: "Agents at work at once, including the one that the user talks with."},
					{Name: "max_total", Kind: Integer, Default: "64", Doc: "Agents that are spawned in the life of a thread, by it and by its agents."},
					{Name: "max_depth", Kind: Integer, Default: "8", Doc: "How deep agents may be nested."},
					{Name: "max_hops", Kind: Integer, Default: "16", Doc: "How often agents may give each other work in a row before the user has to say something."},
					{Name: "model", Kind: String, Default: "(that of the agent that spawns)", Doc: "Label of the model of agents, unless the call names one."},
					{Name: "unfinished", Kind: String, Default: `"remind"`, Allowed: []string{UnfinishedLeave, UnfinishedRemind, UnfinishedWait}, Doc: "What a command " +
						"such as `gantry exec` does when its turn is to end while agents are at work. `remind`: the model is told once, and goes on. `wait`: the turn " +
						"goes on when they are done. `leave`: they are stopped. Their conversations stay, and can go on when the thread is resumed."},
					{Name: "wait_default", Kind: Duration, Default: `"30s"`, Doc: "How long `wait_agent` waits if the call does not say."},
					{Name: "wait_min", Kind: Duration, Default: `"10s"`, Doc: "A shorter time is raised to this one."},
					{Name: "wait_max", Kind: Duration, Default: `"1h"`, Doc: "A longer time is an error."},
					{Name: "roles", Kind: List, Default: "[]", Doc: "Folders with role files, in addition to `~/.gantry/agents` and the project's `.gantry/agents`, " +
						"for example `~/.claude/agents`. Sandboxed commands can't write in them."},
				},
				Blocks: []*Block{agentBudget("Model usage allowed for all agents of a thread together. The `budget` of the thread limits them as well.")},
			},
			agent(),
			{
				Name: BlockHistory, Doc: "How much of a thread the model sees.",
				Attributes: []Attribute{
					{Name: "tool_output_tokens", Kind: Integer, Default: "10000",
						Doc: "Tokens of one tool's output that the model sees, unless the model's row or the tool sets another value."},
					{Name: "compact_at_tokens", Kind: Integer, Default: "(nine tenths of the model's window)",
						Doc: "Number of tokens at which a thread is compacted: a model writes a summary of the conversation, which replaces " +
							"everything except the user's own messages. Values above the default have no effect."},
					{Name: "compact_counts", Kind: String, Default: `"all"`, Allowed: []string{"all", "new"},
						Doc: "What `compact_at_tokens` counts. `all`: the whole request. `new`: everything after the first request since the thread " +
							"was created or compacted; the limit of the model's window still applies."},
					{Name: "compact_prompt", Kind: String,
						Doc: "Prompt for the summary, instead of gantry's own; `file(\"./compact.md\")` reads it from a file."},
				},
			},
			{
				Name: BlockInstructions, Doc: "Instructions that a model gets before the first message.",
				Attributes: []Attribute{
					{Name: "text", Kind: String, Default: "(gantry's own)",
						Doc: "Instructions at the start of every request: `file(\"./agent.md\")`. A thread keeps the instructions with which it was " +
							"created."},
					{Name: "max_bytes", Kind: Integer, Default: "32768",
						Doc: "Total size, in bytes, of the project's AGENTS.md files that the model sees. 0: they are not read."},
					{Name: "root_markers", Kind: List, Default: `[".git"]`,
						Doc: "The nearest parent folder that contains one of these is the project's top folder; AGENTS.md files are read from there " +
							"down to the working folder. Empty: only in the working folder."},
					{Name: "fallback_files", Kind: List, Default: "[]", Doc: "File names to use in folders without an AGENTS.md, such as " +
						"`\"CLAUDE.md\"`."},
				},
			},
			{
				Name: BlockReview, Doc: "Settings of code reviews: `gantry review`.",
				Attributes: []Attribute{
					{Name: "model", Kind: String, Default: "(the thread's)", Doc: "Label of the reviewing model."},
				},
			},
			{
				Name: BlockGuardian,
				Doc: "A model that answers on your behalf when the policy `on-request` asks about a call. Hooks are asked first. Any failure " +
					"counts as a denial; you are only asked if the model can't be reached at all.",
				Attributes: []Attribute{
					{Name: "enabled", Kind: Bool, Default: "false", Doc: "Whether the guardian is used."},
					{Name: "model", Kind: String, Default: "(the thread's)", Doc: "Label of the reviewing model; a small one is sufficient."},
					{Name: "policy", Kind: String, Doc: "Additional, stricter instructions for the model: `file(\"./policy.md\")`."},
					{Name: "timeout", Kind: Duration, Default: `"90s"`, Doc: "Time limit for one review, including retries."},
				},
			},
			{
				Name: BlockHooks, Doc: "Settings that apply to all hooks.",
				Attributes: []Attribute{
					{Name: "on_error", Kind: String, Default: `("proceed"; "block" for hooks in /etc/gantry before calls)`, Allowed: hookErrors,
						Doc: "Consequence of a failed hook that has no `on_error` of its own: see `hook`."},
					{Name: "managed_only", Kind: Bool, Default: "false",
						Doc: "Whether only hooks in /etc/gantry run. If set there, no other file can override it."},
					{Name: "login_shell", Kind: Bool, Default: "false",
						Doc: "Whether hooks run in a login shell, which reads your profile. Without it, they have your environment as well, and " +
							"start faster."},
				},
			},
			hook(),
			{
				Name: BlockStore, Doc: "Where threads are stored, and for how long.",
				Attributes: []Attribute{
					{Name: "driver", Kind: String, Default: `"sqlite"`, Allowed: []string{DriverSQLite, DriverPostgres},
						Doc: "`sqlite`: a file in gantry's home. `postgres`: a PostgreSQL server that several machines can share; it requires the " +
							"program `gantry-postgres` instead of `gantry`."},
					{Name: "dsn", Kind: String,
						Doc: "Address of the PostgreSQL database: `postgres://USER@HOST/DATABASE?sslmode=verify-full`, or `host=... dbname=...`. If " +
							"it contains a password, use `env(\"GANTRY_DSN\")`, `secret(\"NAME\")` or `file(\"PATH\")`."},
				},
				Blocks: []*Block{{
					Name: BlockRetention, Doc: "What is deleted automatically. Without arguments, everything is kept.",
					Attributes: []Attribute{
						{Name: "max_age", Kind: Duration, Doc: "Threads that haven't been used for longer than this are deleted."},
						{Name: "max_threads", Kind: Integer, Doc: "Number of threads to keep; the least recently used ones are deleted. 0: all."},
						{Name: "keep_named", Kind: Bool, Default: "false", Doc: "Whether named threads are never deleted."},
					},
				}},
			},
		},
	}
}

func provider() *Block {
	return &Block{
		Name: BlockProvider, Label: "name", Open: Rest,
		Doc: "A model provider. All other arguments are defined by the provider, for example `base_url` and `api_key`; `gantry plugin " +
			"inspect NAME` lists them. You choose the label; several providers can use the same source.",
		Attributes: program(),
		Blocks:     []*Block{env(), permissions(), processLimits()},
	}
}

func plugin() *Block {
	return &Block{
		Name: BlockPlugin, Label: "name",
		Doc:        "A tool plugin. You choose the label; several plugins can use the same source.",
		Attributes: append(program(), toolApproval("The approval mode of all tools of the plugin without a `tool` block.")),
		Blocks: []*Block{
			{Name: BlockTool, Label: "name", Doc: "Settings of one tool, or of several: `*` in the name matches any characters. An exact " +
				"name takes precedence over a pattern, and a longer pattern over a shorter one.",
				Attributes: []Attribute{toolApproval("When gantry asks before calls of the tool. `auto`: before a call that may act beyond the " +
					"sandbox, according to the tool's own declaration; not before calls that only read. `prompt`: before every " +
					"call. `writes`: before every call that does not only read. `approve`: never. `deny`: never; all calls are refused. Under the policy `never`, calls that need " +
					"approval are refused, so set `approve` to let them run. Commands and files outside the sandbox always need " +
					"their own approval.")}},
			{Name: BlockConfig, Open: Plugin, Doc: "The plugin's own settings; `gantry plugin inspect NAME` lists them."},
			env(), permissions(), processes(), processLimits(),
		},
	}
}

func toolApproval(doc string) Attribute {
	return Attribute{Name: "approval", Kind: String, Default: `"auto"`, Allowed: toolApprovals, Doc: doc}
}

// program is what every block has that starts a program of its own.
func program() []Attribute {
	return []Attribute{
		{Name: "source", Kind: String, Required: true,
			Doc: "`builtin/NAME`; a path that starts with `./`, `../`, `~/` or `/`; or `NAME` or `NAME@VERSION` of an installed plugin. " +
				"`./` is the folder of the file or, for `.gantry/gantry.hcl`, the project's folder."},
		{Name: "version", Kind: String, Doc: "Allowed versions: `~> 1.4`, `>= 1.2, < 2`."},
		{Name: "args", Kind: List, Default: "[]", Doc: "Command-line arguments of the program."},
		{Name: "files", Kind: List, Default: "[]", Doc: "Files and folders that the program loads, such as the script that an " +
			"interpreter runs and its modules. Their content is locked together with the program and compared at each " +
			"start, and sandboxed commands can't change them."},
		{Name: "enabled", Kind: Bool, Default: "true", Doc: "Whether the block is used."},
		{Name: "transport", Kind: String, Default: "(depends on the platform)", Allowed: transports,
			Doc: "How host and program authenticate each other: `peercred` with the kernel's peer credentials, `mtls` with certificates."},
		{Name: "start_timeout", Kind: Duration, Default: `"10s"`, Doc: "Time limit for starting the program."},
		{Name: "unsafe_env", Kind: Bool, Default: "false",
			Doc: "Allows variables in `env` that make a program load other code, such as `LD_PRELOAD` and `PATH`."},
	}
}

func hook() *Block {
	return &Block{
		Name: BlockHook, Label: "name",
		Doc: "A program of yours, or a model, that observes events and can block them. It has an `event` and a `command` or a `prompt`, " +
			"or names a `file` with hooks in the format of `hooks.json`. A hook runs after you have consented to it with " +
			"`gantry hooks trust`; hooks in /etc/gantry need no consent.",
		Attributes: []Attribute{
			{Name: "event", Kind: String, Allowed: hookEvents, Doc: "The event that runs the hook."},
			{Name: "matcher", Kind: String, Default: `"*"`,
				Doc: "The tools, sources or triggers that the hook applies to: names, as in `\"Bash|apply_patch\"`, or a regular expression. " +
					"Prompt, stop and end events have no matcher."},
			{Name: "command", Kind: String, Doc: "A command line for your shell. It runs in the thread's folder, outside the sandbox, with " +
				"JSON on standard input."},
			{Name: "prompt", Kind: String, Doc: "A prompt for a model, instead of a command. The event's data replaces `$ARGUMENTS`, or is " +
				"appended to the prompt. The model can only object; it has 30 seconds unless `timeout` is set."},
			{Name: "agent", Kind: Bool, Default: "false", Doc: "Whether the model may look at files, in a read-only sandbox, before it " +
				"answers; the default timeout is then one minute."},
			{Name: "model", Kind: String, Default: "(the guardian's, or else the thread's)", Doc: "Label of the model, or PROVIDER/MODEL."},
			{Name: "file", Kind: String, Doc: "A `hooks.json`, or a settings file with a `hooks` object, such as " +
				"`\"~/.claude/settings.json\"`."},
			{Name: "timeout", Kind: Duration, Default: `("10m"; SessionEnd and Interrupt: "1s", at most "3s")`, Doc: "Time limit; after it, the hook is ended with all of its processes. " +
				"This counts as a failure."},
			{Name: "async", Kind: Bool, Default: "false", Doc: "Runs the hook in the background; gantry doesn't wait for it, and it can't " +
				"decide anything."},
			{Name: "on_error", Kind: String, Default: "(that of `hooks`)", Allowed: hookErrors,
				Doc: "Consequence of a failure: a crash, a timeout, an invalid answer, or lost trust. `proceed`: continue as if the hook " +
					"didn't exist. `block`: block the action that the hook guards."},
			{Name: "status", Kind: String, Doc: "Text that is shown while the hook runs."},
			{Name: "context_tokens", Kind: Integer, Default: "2500",
				Doc: "Tokens of the hook's context that are added to the conversation; the rest is written to a file, whose name is added. 0: " +
					"unlimited."},
			{Name: "files", Kind: List, Doc: "Files and folders that the command runs in addition to those that gantry finds by parsing " +
				"it, relative to the folder in which it runs. Your consent covers them, and sandboxed commands can't change " +
				"them. Required for commands that gantry can't follow completely (`make`, `npm run`, `\"$X\"/run`); `[]` " +
				"consents to whatever the command runs."},
			{Name: "enabled", Kind: Bool, Default: "true", Doc: "Whether the hook is used."},
		},
	}
}

func environment() *Block {
	return &Block{
		Name: BlockEnvironment,
		Doc: "Environment variables of processes started by tools. The arguments are applied in this order: `inherit`, " +
			"`default_excludes`, `exclude`, `set`, `include_only`; variables set by gantry and by the tool itself are " +
			"added last. Variables that a provider's or plugin's block reads with `env()` are always removed. In patterns, " +
			"`*` matches any characters and `?` a single one; matching is case-insensitive.",
		Attributes: []Attribute{
			{Name: "inherit", Kind: String, Default: `"all"`, Allowed: inheritance,
				Doc: "Which variables of your environment are inherited. `core`: PATH, SHELL, TMPDIR, TEMP, TMP, HOME, LANG, LC_ALL, " +
					"LC_CTYPE, LOGNAME and USER."},
			{Name: "default_excludes", Kind: Bool, Default: "true",
				Doc: "Removes variables whose names indicate a secret: `*KEY*`, `*SECRET*`, `*TOKEN*`, `*PASSWORD*`, `*PASSWD*` and " +
					"`*CREDENTIAL*`."},
			{Name: "exclude", Kind: List, Default: "[]", Doc: "Name patterns of variables to remove: `\"AWS_*\"`."},
			{Name: "include_only", Kind: List, Default: "(any)", Doc: "Name patterns; only matching variables are kept, including those in " +
				"`set`."},
		},
		Blocks: []*Block{{Name: BlockSet, Open: Variables,
			Doc: "Variables that are added, or that replace inherited ones. `set { GH_TOKEN = env(\"GH_TOKEN\") }` passes on a variable that " +
				"`default_excludes` removes."}},
	}
}

func env() *Block {
	return &Block{Name: BlockEnv, Open: Variables,
		Doc: "Environment variables of the program, in addition to the few that every plugin gets. It gets nothing else from your " +
			"environment."}
}

func permissions() *Block {
	return &Block{
		Name: BlockPermissions,
		Doc:  "What the program itself may do. Processes that it has gantry start are subject to `sandbox` and `approval` instead.",
		Attributes: []Attribute{
			{Name: "network", Kind: List, Default: "[]", Doc: "Hosts that a tool plugin may reach through gantry, in addition to those of " +
				"URLs in its own settings: `\"api.example.com\"`, `\"*.example.com\"` for its subdomains, `\"**.example.com\"` for both, with " +
				"`:PORT` for one port. Addresses of this machine and of private networks must be listed literally, and not in a project's " +
				"file. `\"*\"` gives the plugin the whole network, without gantry in between."},
			{Name: "exec", Kind: List, Default: "(any)", Doc: "The only programs that a tool plugin may have gantry start in a call: `git " +
				"*` permits one argument, `cargo test **` any number of further ones. `approval` and `sandbox` apply to them " +
				"as to any command."},
			{Name: "read", Kind: List, Default: "[]", Doc: "Folders and files that the program may read."},
			{Name: "write", Kind: List, Default: "[]", Doc: "Folders and files that the program may write."},
			{Name: "capabilities", Kind: List, Default: "(all that it declares)", Doc: "The capabilities declared by its manifest that it gets: `spawn`, " +
				"`ask`, `call-tools`, `sample`, `secrets`, `state`, `network`. Requests that need another capability are " +
				"refused, and the error names it."},
		},
	}
}

func processes() *Block {
	return &Block{
		Name: BlockProcesses, Doc: "Settings of the processes that gantry starts for the plugin, in place of the general ones. They are part of what you " +
			"consent to in the lock.",
		Attributes: []Attribute{
			{Name: "memory", Kind: Size, Default: "(that of `limits`)", Doc: "Memory of a process together with its descendants."},
		},
		Blocks: []*Block{{
			Name: BlockNetwork, Doc: "What they can reach, in place of the general block `network`, with the same meaning of its arguments. Rules files apply to " +
				"them as well. Under `full-access`, it only applies to processes that have a sandbox in every mode, such as a browser.",
			Attributes: []Attribute{
				{Name: "mode", Kind: String, Required: true, Allowed: networkModes, Doc: "`none`, `proxy` or `full`."},
				{Name: "allow", Kind: List, Default: "[]", Doc: "Patterns of hosts that are allowed."},
				{Name: "deny", Kind: List, Default: "[]", Doc: "Patterns of hosts that are refused, regardless of `allow`."},
				{Name: "methods", Kind: String, Default: `"full"`, Allowed: networkMethods, Doc: "`limited`: only GET, HEAD and OPTIONS over plain HTTP."},
				{Name: "local", Kind: Bool, Default: "false", Doc: "Whether allowed names may resolve to this machine or to private networks."},
				{Name: "unknown", Kind: String, Default: `"ask"`, Allowed: unknownHosts,
					Doc: "Hosts that no pattern and no rule names. `ask`: gantry asks about them, unless `approval` never asks; of a browser, about the site of " +
						"a page, whose parts can then come from all hosts of the internet. `public`: they are allowed at addresses of the internet, and " +
						"never at those of this machine or of private networks. `deny`: they are refused."},
			},
		}},
	}
}

func processLimits() *Block {
	return &Block{
		Name: BlockLimits, Doc: "Limits of the program itself.",
		Attributes: []Attribute{
			{Name: "memory", Kind: Size, Doc: "Memory."},
			{Name: "pids", Kind: Integer, Doc: "Number of processes and threads."},
			{Name: "storage", Kind: Size, Default: `"1GiB"`, Doc: "Total size of its own folders: data, cache and temporary files. They " +
				"are measured periodically; a plugin that exceeds the limit is stopped."},
			{Name: "state", Kind: Size, Default: `"64MiB"`, Doc: "Size of the keys and values that gantry stores for it."},
			{Name: "artifacts", Kind: Size, Default: `"4GiB"`, Doc: "Size of the artifacts that it creates, per gantry process."},
			{Name: "events", Kind: Size, Default: `"64MiB"`, Doc: "Size of its stored events, per gantry process."},
		},
	}
}

// agent is a role that agents are spawned with.
func agent() *Block {
	return &Block{
		Name: BlockAgent, Label: "name",
		Doc: "A role for agents, which a model selects with `agent_type`. It can only narrow what an agent may do. Settings that are left out come from " +
			"a role of the same name in a file, and then from the built-in roles `default`, `explorer` and `worker`.",
		Attributes: []Attribute{
			{Name: "description", Kind: String, Doc: "What the role is for. Models see it when they choose a role."},
			{Name: "instructions", Kind: String, Doc: "Instructions for the agent; `file(\"./explorer.md\")` reads them from a file."},
			{Name: "model", Kind: String, Default: "(that of `agents`)", Doc: "Label of the model, unless the call names one. If it can't be used, no agent is spawned."},
			{Name: "reasoning", Kind: String, Default: "(the model's own)", Doc: "Reasoning effort, unless the call names one."},
			{Name: "tools", Kind: List, Default: "(all)", Doc: "The only tools that the agent has, by name. `*` matches any part of a name. A list that is set " +
				"in addition to `without` is reduced by it."},
			{Name: "without", Kind: List, Default: "[]", Doc: "Tools that the agent does not have."},
			{Name: "nicknames", Kind: List, Default: "(gantry's own)", Doc: "Names by which people tell agents of this role apart."},
		},
		Blocks: []*Block{
			{
				Name: BlockSandbox, Doc: "Bounds of the agent's sandbox. They apply in addition to those of the agents above it, and no approval exceeds them.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: "(that of the agent above)", Allowed: sandboxModes, Doc: "The widest sandbox mode."},
					{Name: "network", Kind: Bool, Default: "true", Doc: "`false`: commands can't reach the network."},
					{Name: "deny_read", Kind: List, Default: "[]", Doc: "Files and folders that commands can neither read nor write, in addition to those of the general block."},
					{Name: "deny_write", Kind: List, Default: "[]", Doc: "Files and folders that commands can't write, in addition to those of the general block."},
				},
			},
			agentBudget("Model usage allowed for the agent and for those that it spawns."),
			{
				Name: BlockLimits, Doc: "Limits of a turn of the agent.",
				Attributes: []Attribute{{Name: "samplings", Kind: Integer, Doc: "Requests to the model in one turn."}},
			},
		},
	}
}

func agentBudget(doc string) *Block {
	return &Block{
		Name: BlockBudget, Doc: doc,
		Attributes: []Attribute{
			{Name: "tokens", Kind: Integer, Doc: "Tokens of all requests: input and output, including cached tokens."},
			{Name: "usd", Kind: Number, Doc: "US dollars for all requests. Answers of models without known prices aren't counted."},
		},
	}
}

func model() *Block {
	return &Block{
		Name: BlockModel, Label: "name",
		Doc: "A model under a label of your choice. Start a thread with it: `gantry exec --model NAME`. Models without a block are " +
			"addressed as PROVIDER/MODEL.",
		Attributes: []Attribute{
			{Name: "provider", Kind: String, Required: true, Doc: "Label of a provider block."},
			{Name: "name", Kind: String, Required: true, Doc: "The provider's name for the model."},
			{Name: "reasoning", Kind: String, Default: "(the model's own)", Doc: "Reasoning effort; one of those listed in the model's row."},
			{Name: "context_window", Kind: Integer, Default: "(the model's row)", Doc: "Tokens of the model's context window to use; values above the model's " +
				"maximum have no effect."},
			{Name: "max_output_tokens", Kind: Integer, Default: "(the model's row)", Doc: "Maximum number of tokens of one answer."},
			{Name: "fallback", Kind: List, Default: "[]", Doc: "Labels of models that continue a turn, in this order, if this one can't " +
				"answer: no connection, no key, no quota, rate limits, overload or a server error. The next turn starts with " +
				"this model again."},
			{Name: "instructions", Kind: String, Default: "(the thread's)", Doc: "Instructions for this model, instead of those in the `instructions` " +
				"block. A thread that switches to the model gets them."},
			{Name: "hosted_tools", Kind: List, Default: "[]", Doc: "Tools that the provider runs itself and that the model may use, such " +
				"as \"web_search\"; `gantry models --json` lists them. Tools that access the network are left out if `sandbox` " +
				"forbids it."},
			{Name: "tool_mode", Kind: String, Default: "(that of the `codemode` block)", Allowed: toolModes, Doc: "How the model calls tools: `direct`, in " +
				"scripts as well (`code`), or only in scripts (`code-only`)."},
		},
	}
}
