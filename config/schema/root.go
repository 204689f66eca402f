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
	BlockLimits       = "limits"
	BlockBudget       = "budget"
	BlockHistory      = "history"
	BlockInstructions = "instructions"
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
	toolApprovals    = []string{ApprovalAuto, "prompt", "approve", "deny"}
	approvalPolicies = []string{"untrusted", "on-request", "on-failure", "granular", "never"}
	sandboxModes     = []string{"read-only", "workspace-write", SandboxFullAccess}
	transports       = []string{"peercred", "mtls"}
	hookErrors       = []string{"proceed", "block"}
	// JudgedEvents are those of a hook that is a prompt.
	JudgedEvents = []string{"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop"}
	hookEvents   = []string{
		"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "PreCompact", "PostCompact",
		"Stop", "Interrupt", "Notification",
	}
	inheritance    = []string{InheritAll, InheritCore, InheritNone}
	networkModes   = []string{NetworkNone, NetworkProxy, NetworkFull}
	networkMethods = []string{MethodsFull, MethodsLimited}
)

// SandboxFullAccess is the sandbox mode without a sandbox.
const SandboxFullAccess = "full-access"

// How the network is reached, and with which methods.
const (
	NetworkNone    = "none"
	NetworkProxy   = "proxy"
	NetworkFull    = "full"
	MethodsFull    = "full"
	MethodsLimited = "limited"
)

// ApprovalAuto asks about a tool by what it says of itself.
const ApprovalAuto = "auto"

// What of the environment is inherited.
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

// Root returns what may stand at the top of a file. Each call returns a table of its own.
func Root() *Block {
	root := settings()
	profile := settings()
	profile.Name, profile.Label = BlockProfile, "name"
	profile.Doc = "Settings that hold on top of all files when the profile is selected with `--profile NAME`. " +
		"`-c` still goes above them. A profile takes everything that a file takes, except profiles."
	root.Blocks = append(root.Blocks, profile)
	return root
}

func settings() *Block {
	return &Block{
		Doc: "Where two layers set the same argument, the later one counts: built-in, /etc/gantry/gantry.hcl, " +
			"~/.gantry/gantry.hcl, .gantry/gantry.hcl of a trusted project, --config FILE, --profile NAME, -c NAME=VALUE.",
		Attributes: []Attribute{
			{Name: "default_model", Kind: String, Default: `(the model "default", or the only one there is)`,
				Doc: "Label of the model that a new thread uses."},
		},
		Blocks: []*Block{
			provider(), plugin(), model(),
			{
				Name: BlockApproval, Doc: "When a person is asked before something happens.",
				Attributes: []Attribute{
					{Name: "policy", Kind: String, Default: `"on-request"`, Allowed: approvalPolicies,
						Doc: "`untrusted`: before every call that is more than reading. `on-request`: when a call asks for more than " +
							"its grant; `on-failure` is another name of it. `granular`: the same, with the kinds of questions in `granular`. " +
							"`never`: nobody is asked; what would need it is refused. Under each of them rules count first: see the guide on safety."},
					{Name: "safe_commands", Kind: Bool, Default: "false",
						Doc: "Whether `untrusted` lets commands that only look, `ls` and `git status` for example, run without a question. " +
							"`gantry policy check COMMAND` tells which ones."},
					{Name: "additional_permissions", Kind: Bool, Default: "true",
						Doc: "Whether a model may ask for single permissions beyond its sandbox, a folder to write or the network for example: with a command, " +
							"or ahead of it for the commands of a turn or of a session."},
				},
				Blocks: []*Block{{
					Name: BlockGranular, Doc: "Which questions are put under the policy `granular`. What is false is refused instead.",
					Attributes: []Attribute{
						{Name: "sandbox_approval", Kind: Bool, Required: true, Doc: "To run outside of the sandbox, and to try again there what it stopped."},
						{Name: "rules", Kind: Bool, Required: true, Doc: "About what a rule says is to be asked about."},
						{Name: "mcp_elicitations", Kind: Bool, Required: true, Doc: "What MCP servers and other plugins ask of their own accord."},
						{Name: "skill_approval", Kind: Bool, Default: "false", Doc: "To run a script of a skill. Nothing asks that yet."},
						{Name: "request_permissions", Kind: Bool, Default: "false", Doc: "For more permissions than calls have, ahead of them."},
					},
				}},
			},
			{
				Name: BlockSandbox, Doc: "What processes that tools start may do.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: `"workspace-write"`, Allowed: sandboxModes,
						Doc: "`read-only`: commands write nothing. `workspace-write`: they write the working folder, `writable_roots` " +
							"and a /tmp of their own. `full-access`: they may do what you may. The first two need bubblewrap on Linux, and nothing on macOS; " +
							"where they can't be enforced no process is started, and the message says why."},
					{Name: "writable_roots", Kind: List, Default: "[]",
						Doc: "Folders that may be written beside the working folder. Relative ones lie in the folder that `./` paths of the file start from."},
					{Name: "readable_roots", Kind: List, Default: "(everything)",
						Doc: "Folders and files that may be read. Once one is named nothing else is, but the working folder, `writable_roots`, programs and " +
							"libraries of the system (/usr, /bin, /lib, /etc and the like)."},
					{Name: "deny_read", Kind: List, Default: "[]",
						Doc: "Files and folders that commands neither read nor write, whatever is approved: paths, or patterns in which `*`, `?` and `[...]` " +
							"stand for parts of a name and `**` for any number of folders. What begins with neither `/`, `~/` nor `./` is looked for below the " +
							"working folder and the other roots. Holds in every mode; what /etc/gantry denies stays denied."},
					{Name: "deny_write", Kind: List, Default: "[]",
						Doc: "The same for what commands in the sandbox must not write. A path that is not there yet can't be made either; to a pattern " +
							"only what is there counts. With `full-access`, and for a command that was let run outside of the sandbox, it has no effect."},
					{Name: "network", Kind: Bool, Default: "false", Doc: "Whether the network may be reached in modes other than `full-access`."},
					{Name: "require_landlock", Kind: Bool, Default: "false",
						Doc: "Whether a mode other than `full-access` counts as enforced only with Landlock, the kernel's second lock on files behind the mounts. " +
							"Without this the sandbox goes on where a kernel lacks it, and `gantry sandbox explain` says so."},
				},
			},
			{
				Name: BlockNetwork,
				Doc: "What processes reach of the network that tools start, in sandbox modes other than `full-access`. Patterns of hosts: `example.com` is " +
					"that host alone, `*.example.com` what is below it, `**.example.com` both, `*` any; `:PORT` behind one leaves other ports out.",
				Attributes: []Attribute{
					{Name: "mode", Kind: String, Default: "(what `sandbox.network` says)", Allowed: networkModes,
						Doc: "`none`: nothing. `proxy`: what `allow` and `deny` say, through a proxy of gantry's, which the usual variables name. `full`: all of it."},
					{Name: "allow", Kind: List, Default: "[]",
						Doc: "Patterns of hosts that may be reached. About others you are asked, unless `approval` asks nobody. Addresses of this machine and of " +
							"private networks have to stand here as they are: `\"127.0.0.1\"`, `\"localhost\"`."},
					{Name: "deny", Kind: List, Default: "[]", Doc: "Patterns of hosts that may not, whatever `allow` says. Nobody is asked about them."},
					{Name: "methods", Kind: String, Default: `"full"`, Allowed: networkMethods,
						Doc: "`limited`: only GET, HEAD and OPTIONS of plain HTTP; https can't be looked into, so it is refused."},
					{Name: "local", Kind: Bool, Default: "false", Doc: "Whether allowed names may lead to this machine and to private networks."},
				},
			},
			environment(),
			{
				Name: BlockSecrets, Doc: "What becomes of secrets that a tool's output shows. In its place models, events and doors see `[REDACTED_SECRET]`. " +
					"Logs never show one, whatever is written here.",
				Attributes: []Attribute{
					{Name: "redact", Kind: Bool, Default: "true",
						Doc: "Takes out values that gantry knows: of keys in `provider` and `plugin` blocks, of stored secrets that were used, and of variables " +
							"whose names `environment` takes for a secret's. Values of fewer than 8 characters are left."},
					{Name: "redact_patterns", Kind: Bool, Default: "true",
						Doc: "Takes out what looks like a key, too: `Bearer ...`, `sk-...`, `AKIA...`, `ghp_...`, and what is assigned to a name like `password` " +
							"and has letters and digits, but reads like no piece of a program. Switch it off where it gets in the way of changing files."},
				},
			},
			{
				Name: BlockLimits, Doc: "Limits of a turn, and of each command or other process that is started for a tool, with all that it starts. What is left out is not limited.",
				Attributes: []Attribute{
					{Name: "samplings", Kind: Integer,
						Doc: "Requests to the model in one turn; a turn that needs more fails, and can be gone on with. 0: any number."},
					{Name: "turn_time", Kind: Duration,
						Doc: "Time of one turn, with all that it waits for, questions to you included. A turn that takes longer fails, and can be gone on with."},
					{Name: "offline_wait", Kind: Duration, Default: "(as long as somebody can stop it)",
						Doc: "How long a turn waits while no connection to a model comes about, before the usual tries begin. Without it a turn waits as " +
							"long as a client that answers questions is connected to the thread, and else, as under `gantry exec`, not at all."},
					{Name: "memory", Kind: Size, Doc: "Memory that a command and all that it starts may have together; one that wants more is ended."},
					{Name: "pids", Kind: Integer, Doc: "Number of its processes and threads; a command that wants more is ended."},
					{Name: "cpu_time", Kind: Duration, Doc: "Processor time of all of them, in whole seconds; then they are ended."},
					{Name: "open_files", Kind: Integer, Doc: "Open files of each process."},
					{Name: "file_size", Kind: Size, Doc: "Size of each file that is written; a process that writes more is ended."},
					{Name: "output", Kind: Size, Default: `"8MiB"`, Doc: "Output of a call that is shown while it runs, at most the default. Of more than that the model still gets the beginning and the end."},
				},
			},
			{
				Name: BlockBudget,
				Doc: "What a thread may use of models. What is reached ends the turn before its next request, never in the middle of " +
					"one; requests of plugins count, too. What is left out, or 0, is not limited.",
				Attributes: []Attribute{
					{Name: "tokens", Kind: Integer, Doc: "Tokens of all the thread's requests, in and out, cached ones too."},
					{Name: "usd", Kind: Number, Doc: "US dollars of all the thread's requests. What answers of a model without known prices cost is not counted; a warning says so."},
					{Name: "turn_tokens", Kind: Integer, Doc: "Tokens of one turn."},
					{Name: "turn_usd", Kind: Number, Doc: "US dollars of one turn."},
				},
			},
			{
				Name: BlockHistory, Doc: "What the model gets to see of a thread.",
				Attributes: []Attribute{
					{Name: "tool_output_tokens", Kind: Integer, Default: "10000",
						Doc: "Tokens of one tool's output that the model sees, where neither the model's row nor the tool says otherwise."},
					{Name: "compact_at_tokens", Kind: Integer, Default: "(nine tenths of the model's window)",
						Doc: "Tokens at which a thread is compacted: a model writes an account of the conversation, which takes its place beside " +
							"the user's own words. More than the default counts as the default."},
					{Name: "compact_counts", Kind: String, Default: `"all"`, Allowed: []string{"all", "new"},
						Doc: "What `compact_at_tokens` counts. `all`: everything that a request holds. `new`: what came after the first request " +
							"since the thread began or was compacted; the end of the model's window counts all the same."},
					{Name: "compact_prompt", Kind: String,
						Doc: "What the model is asked with for its account, instead of gantry's own words; `file(\"./compact.md\")` reads it from a file."},
				},
			},
			{
				Name: BlockInstructions, Doc: "What a model is told before anybody says something.",
				Attributes: []Attribute{
					{Name: "text", Kind: String, Default: "(gantry's own)",
						Doc: "Instructions that open every request: `file(\"./agent.md\")`. A thread keeps those that it began with."},
					{Name: "max_bytes", Kind: Integer, Default: "32768",
						Doc: "Bytes of a project's AGENTS.md files that the model sees, all together. 0: they are not read."},
					{Name: "root_markers", Kind: List, Default: `[".git"]`,
						Doc: "The nearest folder upwards that holds one of these is the project's top; AGENTS.md counts from there down to the " +
							"working folder. Empty: only the working folder."},
					{Name: "fallback_files", Kind: List, Default: "[]", Doc: "File names that count where a folder has no AGENTS.md, `\"CLAUDE.md\"` for example."},
				},
			},
			{
				Name: BlockReview, Doc: "How changes are reviewed: `gantry review`.",
				Attributes: []Attribute{
					{Name: "model", Kind: String, Default: "(the thread's)", Doc: "Label of the model that reviews."},
				},
			},
			{
				Name: BlockGuardian,
				Doc: "A model that answers in your place when the policy `on-request` asks about a call. Hooks come before it. Whatever goes wrong with it " +
					"is a no; only when its model can't be reached at all you are asked.",
				Attributes: []Attribute{
					{Name: "enabled", Kind: Bool, Default: "false", Doc: "Whether it answers."},
					{Name: "model", Kind: String, Default: "(the thread's)", Doc: "Label of the model that reviews; a small one will do."},
					{Name: "policy", Kind: String, Doc: "What it is told beside gantry's own words, where it is stricter: `file(\"./policy.md\")`."},
					{Name: "timeout", Kind: Duration, Default: `"90s"`, Doc: "How long one review may take, with all its tries."},
				},
			},
			{
				Name: BlockHooks, Doc: "How hooks run, all of them.",
				Attributes: []Attribute{
					{Name: "on_error", Kind: String, Default: `("proceed"; "block" for what /etc/gantry has before calls)`, Allowed: hookErrors,
						Doc: "What a hook that fails means where it does not say so itself: see `hook`."},
					{Name: "managed_only", Kind: Bool, Default: "false",
						Doc: "Only hooks of /etc/gantry run. Where its file says so, no other file takes it back."},
					{Name: "login_shell", Kind: Bool, Default: "false",
						Doc: "Whether the shell that runs them reads your profile. They have your environment also without it, and start faster."},
				},
			},
			hook(),
			{
				Name: BlockStore, Doc: "Where threads are kept, and for how long.",
				Attributes: []Attribute{
					{Name: "driver", Kind: String, Default: `"sqlite"`, Allowed: []string{DriverSQLite, DriverPostgres},
						Doc: "`sqlite`: a file in gantry's home. `postgres`: a PostgreSQL server that several machines may share; it takes " +
							"the program `gantry-postgres` in the place of `gantry`."},
					{Name: "dsn", Kind: String,
						Doc: "Address of the PostgreSQL database: `postgres://USER@HOST/DATABASE?sslmode=verify-full`, or `host=... dbname=...`. " +
							"With a password in it write `env(\"GANTRY_DSN\")`, `secret(\"NAME\")` or `file(\"PATH\")`."},
				},
				Blocks: []*Block{{
					Name: BlockRetention, Doc: "What is removed by itself. Without arguments everything is kept.",
					Attributes: []Attribute{
						{Name: "max_age", Kind: Duration, Doc: "Threads that were not used for longer are removed."},
						{Name: "max_threads", Kind: Integer, Doc: "Only this many threads are kept, the last used ones. 0: all."},
						{Name: "keep_named", Kind: Bool, Default: "false", Doc: "Threads that were given a name are never removed."},
					},
				}},
			},
		},
	}
}

func provider() *Block {
	return &Block{
		Name: BlockProvider, Label: "name", Open: Rest,
		Doc: "A model provider. All other arguments are the provider's own, `base_url` and `api_key` for example; " +
			"`gantry plugin inspect NAME` shows them. The label is yours to choose; one source may serve several providers.",
		Attributes: program(),
		Blocks:     []*Block{env(), permissions(), processLimits()},
	}
}

func plugin() *Block {
	return &Block{
		Name: BlockPlugin, Label: "name",
		Doc:        "A tool plugin. The label is yours to choose; one source may serve several plugins.",
		Attributes: append(program(), toolApproval("The same for all tools of the plugin that have no `tool` block.")),
		Blocks: []*Block{
			{Name: BlockTool, Label: "name", Doc: "Settings of one tool, or of several: in the name `*` stands for any characters. A whole name counts before a pattern, a longer pattern before a shorter one.",
				Attributes: []Attribute{toolApproval("When you are asked about calls of the tool. `auto`: when a call may act beyond the sandbox, as far as the tool says what it does; one that only reads is not " +
					"asked about. `prompt`: each time. `approve`: never. `deny`: never, its calls are refused. Under the policy `never` what would be asked is refused, so `approve` is what lets it run there. " +
					"Commands and files outside of the sandbox are judged by themselves in any case.")}},
			{Name: BlockConfig, Open: Plugin, Doc: "The plugin's own settings; `gantry plugin inspect NAME` shows them."},
			env(), permissions(), processLimits(),
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
			Doc: "`builtin/NAME`; a path that begins with `./`, `../`, `~/` or `/`; or `NAME` or `NAME@VERSION` of an installed plugin. " +
				"`./` is the folder of the file, for `.gantry/gantry.hcl` the project's."},
		{Name: "version", Kind: String, Doc: "Versions that are allowed: `~> 1.4`, `>= 1.2, < 2`."},
		{Name: "args", Kind: List, Default: "[]", Doc: "Arguments of the program."},
		{Name: "files", Kind: List, Default: "[]", Doc: "Files and folders that the program loads: the scripts behind an interpreter, the modules beside them. Their content is locked with " +
			"the program's and compared at each start, and commands in a sandbox can't change them."},
		{Name: "enabled", Kind: Bool, Default: "true", Doc: "Whether it is used at all."},
		{Name: "transport", Kind: String, Default: "(what the platform offers)", Allowed: transports,
			Doc: "How host and program know each other: `peercred` by the kernel's word, `mtls` by certificates."},
		{Name: "start_timeout", Kind: Duration, Default: `"10s"`, Doc: "How long it may take to start."},
		{Name: "unsafe_env", Kind: Bool, Default: "false",
			Doc: "Allows variables in `env` that make a program load other code, `LD_PRELOAD` and `PATH` for example."},
	}
}

func hook() *Block {
	return &Block{
		Name: BlockHook, Label: "name",
		Doc: "A program of yours, or a model, that sees what happens, and may stop it. It has an `event` and a `command` or a `prompt`, or names a `file` that has hooks " +
			"in the form of a `hooks.json`. A hook runs once you have agreed to it, with `gantry hooks trust`; those of /etc/gantry run without.",
		Attributes: []Attribute{
			{Name: "event", Kind: String, Allowed: hookEvents, Doc: "When it runs."},
			{Name: "matcher", Kind: String, Default: `"*"`,
				Doc: "Which tools, sources or triggers it is for: names, as in `\"Bash|apply_patch\"`, or a regular expression. Prompts, stops and ends have none."},
			{Name: "command", Kind: String, Doc: "A line for your shell. It runs in the thread's folder, outside the sandbox, with JSON on its standard input."},
			{Name: "prompt", Kind: String, Doc: "What a model is to look for, in the place of a command. It reads what happens where `$ARGUMENTS` stands, or behind the " +
				"prompt, and can only object; it has 30 seconds unless `timeout` says otherwise."},
			{Name: "agent", Kind: Bool, Default: "false", Doc: "Whether the model may look at files, in a read-only sandbox, before it answers; it has a minute then."},
			{Name: "model", Kind: String, Default: "(the guardian's; else the thread's)", Doc: "Label of the model that is asked, or PROVIDER/MODEL."},
			{Name: "file", Kind: String, Doc: "A `hooks.json`, or a file of settings with an object `hooks`: `\"~/.claude/settings.json\"` for example."},
			{Name: "timeout", Kind: Duration, Default: `("10m"; SessionEnd and Interrupt: "1s", at most "3s")`, Doc: "When it is stopped, with all that it started. That counts as a failure."},
			{Name: "async", Kind: Bool, Default: "false", Doc: "Nobody waits for it, and it decides nothing."},
			{Name: "on_error", Kind: String, Default: "(that of `hooks`)", Allowed: hookErrors,
				Doc: "What it means that it fails: it crashes, takes too long, answers what makes no sense, or can't be trusted any more. `proceed`: " +
					"things go on as if it were not there. `block`: what it was to judge does not happen."},
			{Name: "status", Kind: String, Doc: "What people read while it runs."},
			{Name: "context_tokens", Kind: Integer, Default: "2500",
				Doc: "How much of what it tells the model stands in the conversation; the rest is put into a file, which is named. 0: all of it."},
			{Name: "files", Kind: List, Doc: "Files and folders that the command runs, beyond those that gantry finds by reading it, relative to the folder it runs in: " +
				"what your consent covers, and what sandboxed commands may not change. A command that can't be followed to its end (`make`, `npm run`, `\"$X\"/run`) needs the list; " +
				"`[]` agrees to whatever it runs."},
			{Name: "enabled", Kind: Bool, Default: "true", Doc: "Whether it is used at all."},
		},
	}
}

func environment() *Block {
	return &Block{
		Name: BlockEnvironment,
		Doc: "Which environment variables processes get that tools start. The parts count in this order: `inherit`, `default_excludes`, " +
			"`exclude`, `set`, `include_only`; what gantry and the tool itself set comes after them. Variables that a provider's or plugin's " +
			"block reads with `env()` are left out in any case. In patterns `*` stands for any characters and `?` for one; upper and lower case are the same.",
		Attributes: []Attribute{
			{Name: "inherit", Kind: String, Default: `"all"`, Allowed: inheritance,
				Doc: "What of your environment they start from. `core`: PATH, SHELL, TMPDIR, TEMP, TMP, HOME, LANG, LC_ALL, LC_CTYPE, LOGNAME and USER."},
			{Name: "default_excludes", Kind: Bool, Default: "true",
				Doc: "Leaves out names that mean a secret: `*KEY*`, `*SECRET*`, `*TOKEN*`, `*PASSWORD*`, `*PASSWD*` and `*CREDENTIAL*`."},
			{Name: "exclude", Kind: List, Default: "[]", Doc: "Patterns of names that are left out: `\"AWS_*\"`."},
			{Name: "include_only", Kind: List, Default: "(any)", Doc: "Patterns; only names that match one of them are kept, also of those in `set`."},
		},
		Blocks: []*Block{{Name: BlockSet, Open: Variables,
			Doc: "Variables that they get beside, or in the place of, inherited ones. `set { GH_TOKEN = env(\"GH_TOKEN\") }` lets one through that `default_excludes` leaves out."}},
	}
}

func env() *Block {
	return &Block{Name: BlockEnv, Open: Variables,
		Doc: "Environment variables for the program, beside the few that every plugin gets. Nothing else of your environment reaches it."}
}

func permissions() *Block {
	return &Block{
		Name: BlockPermissions,
		Doc:  "What the program itself may do. Processes that it asks gantry to start are under `sandbox` and `approval` instead.",
		Attributes: []Attribute{
			{Name: "network", Kind: List, Default: "[]", Doc: "`[\"*\"]`: a tool plugin reaches the network, all of it. It can't be held to single hosts, so nothing else is taken here."},
			{Name: "exec", Kind: List, Default: "(any)", Doc: "Programs that a tool plugin may have gantry start in a call, and no others: `git *` allows one argument, `cargo test **` any further ones. " +
				"`approval` and `sandbox` judge and hold them as any command."},
			{Name: "read", Kind: List, Default: "[]", Doc: "Folders and files that it may read."},
			{Name: "write", Kind: List, Default: "[]", Doc: "Folders and files that it may write."},
			{Name: "capabilities", Kind: List, Default: "(all that it declares)", Doc: "Which of the capabilities that its manifest declares it gets: `spawn`, `ask`, `call-tools`, `sample`, `secrets`, `state`, `network`. " +
				"What it lacks it is refused by name."},
		},
	}
}

func processLimits() *Block {
	return &Block{
		Name: BlockLimits, Doc: "Limits of the program itself.",
		Attributes: []Attribute{
			{Name: "memory", Kind: Size, Doc: "Memory."},
			{Name: "pids", Kind: Integer, Doc: "Number of processes and threads."},
			{Name: "storage", Kind: Size, Default: `"1GiB"`, Doc: "What its own folders may hold: data, cache and temporary files. They are measured from time to time; a plugin that has more is stopped."},
			{Name: "state", Kind: Size, Default: `"64MiB"`, Doc: "What gantry keeps for it by key."},
			{Name: "artifacts", Kind: Size, Default: `"4GiB"`, Doc: "Artifacts that it hands over while one gantry runs."},
			{Name: "events", Kind: Size, Default: `"64MiB"`, Doc: "Events that it has kept while one gantry runs."},
		},
	}
}

func model() *Block {
	return &Block{
		Name: BlockModel, Label: "name",
		Doc: "A model under a name of yours. A thread is started with one: `gantry exec --model NAME`. Without a block of its own " +
			"any model of a provider is PROVIDER/MODEL there.",
		Attributes: []Attribute{
			{Name: "provider", Kind: String, Required: true, Doc: "Label of a provider block."},
			{Name: "name", Kind: String, Required: true, Doc: "The provider's name for the model."},
			{Name: "reasoning", Kind: String, Default: "(the model's own)", Doc: "Reasoning effort, one of those that the model's row lists."},
			{Name: "context_window", Kind: Integer, Default: "(the model's row)", Doc: "Tokens to use of what the model takes; more than that does not count."},
			{Name: "max_output_tokens", Kind: Integer, Default: "(the model's row)", Doc: "Tokens of one answer."},
			{Name: "fallback", Kind: List, Default: "[]", Doc: "Labels of models that go on with a turn, in this order, when this one can't answer: " +
				"no way to it, no key, no quota, too many requests, overloaded or broken. The next turn begins with this one again."},
			{Name: "instructions", Kind: String, Default: "(the thread's)", Doc: "Instructions for this model in the place of those in the " +
				"`instructions` block. A thread that changes to it is told."},
			{Name: "hosted_tools", Kind: List, Default: "[]", Doc: "Tools that the provider runs itself and that the model may use, \"web_search\" for example; " +
				"`gantry models --json` lists them. One that reaches the network is left out where `sandbox` forbids it."},
		},
	}
}
