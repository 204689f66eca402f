package plugintest

import "github.com/gantry-agent/gantry/sdk/contract"

// Check describes one check of the kit.
type Check struct {
	ID   string // stable
	Why  string // the rule, in one sentence
	Kind string // of the plugins that it applies to, "tool" or "provider"; empty: all
}

// Checks returns the checks of [Run], in order.
func Checks() []Check {
	var out []Check
	for _, c := range checks() {
		d := Check{ID: c.id, Why: c.why}
		if c.kind != contract.KindUnknown {
			d.Kind = c.kind.String()
		}
		out = append(out, d)
	}
	return out
}

// checks returns all checks in the order in which they run: after all that they need, cheap and basic ones first, and those
// that end processes last.
func checks() []check {
	const tool, provider = contract.KindTool, contract.KindProvider
	return []check{
		// Started on the command line, without a host.
		{id: "binary.runs", why: "The file can be executed on this machine.", run: checkBinary},
		{
			id: "cookie", why: "Started without a host, the plugin prints an explanation to stderr and exits with status 1.",
			needs: []string{"binary.runs"}, run: checkCookie,
		},
		{
			id: "describe.flag", why: "--describe prints the manifest as one line of canonical JSON, so that a host can read it without a handshake.",
			needs: []string{"binary.runs"}, run: checkDescribeFlag,
		},
		{
			id: "version.flag", why: "--version prints the name and the version.",
			needs: []string{"describe.flag"}, run: checkVersionFlag,
		},
		{
			id: "describe.constant", why: "The manifest depends neither on time nor on the environment, because consent and caches are bound to its digest.",
			needs: []string{"describe.flag"}, run: checkDescribeConstant,
		},
		{
			id: "manifest.valid", why: "The manifest has a valid name, version, kind, commands and limits, and lists this version of the contract.",
			needs: []string{"describe.flag"}, run: checkManifest,
		},
		{
			id: "config.schema", why: "The schema of the config block is consistent, including its defaults, because the host decodes the user's file with it.",
			needs: []string{"describe.flag"}, run: checkConfigSchema,
		},

		// The start.
		{
			id: "start.handshake", why: "The first line on stdout is the handshake line, and the plugin listens at its address.",
			needs: []string{"binary.runs"}, run: checkHandshake,
		},
		{
			id: "start.socket", why: "The socket is directly in the folder that the host created for it, and its path is not too long.",
			needs: []string{"start.handshake"}, run: checkSocket,
		},
		{
			id: "start.time", why: "The plugin prints the handshake line within five seconds.",
			needs: []string{"start.handshake"}, run: checkStartTime,
		},
		{
			id: "start.token", why: "Every RPC without the token from the lifeline is refused, since other processes may be able to connect.",
			needs: []string{"start.handshake"}, run: onRunning(checkToken),
		},
		{
			id: "start.health", why: "The plugin answers health checks, even without a token, because a host uses them to detect hangs.",
			needs: []string{"start.handshake"}, run: onRunning(checkHealth),
		},
		{
			id: "describe.equal", why: "Describe always returns the manifest that --describe prints.",
			needs: []string{"start.handshake", "describe.constant"}, run: onRunning(checkDescribeEqual),
		},

		// Configure.
		{
			id: "configure.accepts", why: "The plugin accepts the configuration that the kit was given.",
			needs: []string{"describe.equal", "config.schema"}, run: checkAccepts,
		},
		{
			id: "start.bare", why: "The plugin needs no home folder, no terminal, no stdin and no writable working directory.",
			needs: []string{"configure.accepts"}, run: checkBare,
		},
		{
			id: "configure.again", why: "A running plugin can be configured again after the user has changed the configuration.",
			needs: []string{"configure.accepts"}, run: onReady(checkAgain),
		},
		{
			id: "configure.type", why: "A value of the wrong type is reported as a diagnostic with its path, not as a status code, and leaves the configuration unchanged.",
			needs: []string{"configure.again"}, run: checkWrongType,
		},
		{
			id: "configure.missing", why: "A missing value is reported as a diagnostic, not as a status code.",
			needs: []string{"configure.again"}, run: checkMissing,
		},
		{
			id: "configure.unknown", why: "An unknown attribute, probably a misspelling, is reported as a diagnostic and not ignored.",
			needs: []string{"configure.again"}, run: checkUnknown,
		},

		// Messages.
		{
			id: "message.large", why: "The plugin accepts messages up to the limit that it announces.",
			needs: []string{"start.handshake"}, run: onRunning(checkLarge),
		},
		{
			id: "message.limit", why: "A message over the limit fails with RESOURCE_EXHAUSTED and has no other effect.",
			needs: []string{"start.handshake"}, run: onRunning(checkLimit),
		},
		{
			id: "command.unknown", why: "A command that the manifest doesn't declare is refused.",
			needs: []string{"configure.accepts"}, run: onReady(checkCommand),
		},

		{
			id: "command.effects", why: "A command that stores something is declared with side_effects, so that a host asks the user before it runs it.",
			needs: []string{"command.unknown"}, run: checkCommandEffects,
		},

		// Tools.
		{
			id: "watch.first", why: "Watch sends the tool set, with a revision, at once.", kind: tool,
			needs: []string{"configure.accepts"}, run: checkWatch,
		},
		{
			id: "watch.lasts", why: "Watch stays open as long as the plugin runs; its end would mean that the tools are gone.", kind: tool,
			needs: []string{"watch.first"}, run: checkWatchLasts,
		},
		{
			id: "tools.schema", why: "Every tool has a valid name, a schema or grammar that compiles, and a caller: the model or other calls.", kind: tool,
			needs: []string{"watch.first"}, run: checkToolSchemas,
		},
		{
			id: "command.next", why: "A command that goes on names a command of the manifest, or declares calls_tool and names a tool of the plugin.", kind: tool,
			needs: []string{"command.effects", "watch.first"}, run: checkNext,
		},
		{
			id: "thread.stream", why: "Thread stays open until the host ends it, and the plugin's messages stay within the limits.", kind: tool,
			needs: []string{"configure.accepts"}, run: onReady(checkThread),
		},
		{
			id: "thread.unknown", why: "StopSession and EndThread accept unknown IDs, because a host may call them twice.", kind: tool,
			needs: []string{"configure.accepts"}, run: onReady(checkUnknownThread),
		},
		{
			id: "call.order", why: "A call sends started first and exactly one result, as the last event.", kind: tool,
			needs: []string{"watch.first"}, run: checkOrder,
		},
		{
			id: "call.arguments", why: "Invalid arguments lead to an error result, which the model can read, not to a status code.", kind: tool,
			needs: []string{"call.order"}, run: checkArguments,
		},
		{
			id: "call.unknown", why: "A call of an unknown tool leads to an error result, since the model may have invented the tool or the tool set may have changed.", kind: tool,
			needs: []string{"call.order"}, run: onReady(checkUnknownTool),
		},
		{
			id: "call.example", why: "The examples with the behaviour \"answers\" succeed.", kind: tool,
			needs: []string{"call.order"}, run: checkExamples,
		},
		{
			id: "call.item", why: "The item of a call that runs code has the code and the name of its language.", kind: tool,
			needs: []string{"call.example"}, run: checkItems,
		},
		{
			id: "call.nested", why: "A call succeeds whether the model or another call, which the start then names, has called the tool.", kind: tool,
			needs: []string{"call.example"}, run: checkNested,
		},
		{
			id: "call.output", why: "Output is sent in deltas of at most 8192 bytes with correct offsets, split between characters, up to the limit of the call.", kind: tool,
			needs: []string{"call.example"}, run: checkOutput,
		},
		{
			id: "call.history", why: "A result refers to an earlier one only if history_revision says that its reader has that.", kind: tool,
			needs: []string{"call.example"}, run: checkHistory,
		},
		{
			id: "call.denied", why: "A call that is denied what it asks for with Authorize returns a result and doesn't do it.", kind: tool,
			needs: []string{"call.example"}, run: checkDenied,
		},
		{
			id: "call.assess", why: "Assess returns the effects of a call, with a valid language for input in another language than a shell's, and an early result for invalid arguments instead of an error.", kind: tool,
			needs: []string{"call.order"}, run: checkAssess,
		},
		{
			id: "call.parallel", why: "A hundred concurrent calls are all answered; calls beyond the number that the manifest declares may be refused.", kind: tool,
			needs: []string{"call.order"}, run: checkParallel,
		},
		{
			id: "call.cancel", why: "A cancelled call returns a result within two seconds.", kind: tool,
			needs: []string{"call.order"}, run: onReady(checkCancel),
		},
		{
			id: "call.deadline", why: "A call that exceeds its deadline ends by itself and returns a result.", kind: tool,
			needs: []string{"call.order"}, run: onReady(checkDeadline),
		},
		{
			id: "call.stream", why: "A plugin that accepts further calls on a stream answers them, and ends the stream when the host does.", kind: tool,
			needs: []string{"call.order", "call.cancel"}, run: onReady(checkStream),
		},
		{
			id: "call.crash", why: "A handler that panics or throws an exception fails only its own call.", kind: tool,
			needs: []string{"call.order"}, run: checkCrash,
		},
		{
			id: "call.backpressure", why: "Output is not buffered without limit while the host doesn't read it: memory grows by at most 64 MiB.", kind: tool,
			needs: []string{"call.order"}, run: checkBackpressure,
		},

		{
			id: "session.view", why: "A view sends opened first and one frame at a time, and ends when the host closes it; an unknown session is NOT_FOUND.", kind: tool,
			needs: []string{"call.order", "thread.unknown"}, run: onReady(checkView),
		},

		// Providers.
		{
			id: "models.rows", why: "Models lists models with unique IDs and plausible numbers.", kind: provider,
			needs: []string{"configure.accepts"}, run: onReady(checkModels),
		},
		{
			id: "prepare.answers", why: "Prepare returns the request that would be sent.", kind: provider,
			needs: []string{"models.rows"}, run: onModel(checkPrepare),
		},
		{
			id: "prepare.redacts", why: "Prepare reveals no secret.", kind: provider,
			needs: []string{"prepare.answers"}, run: onModel(checkRedacts),
		},
		{
			id: "stream.order", why: "The events of a response are in order, and the last one is finish or error.", kind: provider,
			needs: []string{"models.rows"}, run: onModel(checkStreamOrder),
		},
		{
			id: "stream.cancel", why: "Cancelling the RPC ends the request and nothing else.", kind: provider,
			needs: []string{"stream.order"}, run: onModel(checkStreamCancel),
		},

		{
			id: "capabilities.declared", why: "The plugin uses only host services whose capabilities its manifest declares, because a host refuses others.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkCapabilities,
		},
		{
			id: "spawn.limits", why: "No limit of a process that the plugin starts is negative, because a host doesn't start such a process.", kind: tool,
			needs: []string{"call.order"}, run: checkLimits,
		},
		{
			id: "spawn.folders", why: "The folders of a narrow process are below the plugin's own, because a host starts no other.", kind: tool,
			needs: []string{"call.order"}, run: checkFolders,
		},
		{
			id: "spawn.owner", why: "A process that belongs to the root of its thread is a session, because others end with their call.", kind: tool,
			needs: []string{"call.order"}, run: checkOwner,
		},
		{
			id: "spawn.declared", why: "A process without a call is one that the configuration declares, and the request only names it, because the configuration determines what a host starts.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkDeclared,
		},
		{
			id: "message.unknown", why: "Unknown fields, controls and capabilities, which a newer host may send, are ignored.",
			needs: []string{"configure.again", "call.order", "models.rows"}, run: onReady(checkUnknownFields),
		},

		// The following checks start processes of their own.
		{
			id: "permissions.exec", why: "The plugin starts processes only through the host, which enforces its permissions.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkExec,
		},
		{
			id: "permissions.network", why: "A plugin that doesn't declare the capability \"network\" works without network access, which a host blocks.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkNetwork,
		},
		{
			id: "permissions.read", why: "The plugin opens none of the user's keys, which a host hides.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkReads,
		},
		{
			id: "permissions.write", why: "The plugin writes only to its own folders and to those that it was granted.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkWrites,
		},
		{
			id: "message.old", why: "The plugin works without the fields that an older host doesn't send.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkOldHost,
		},
		{
			id: "start.mtls", why: "With mutual TLS, the plugin serves only clients with the host's certificate, since not every system can identify the process at the other end.",
			needs: []string{"start.token"}, run: checkTLS,
		},

		// Ending the plugin.
		{
			id: "drain.counts", why: "Drain returns at its deadline, with the number of calls that are still running.",
			needs: []string{"configure.accepts", "call.order"}, run: checkDrainCounts,
		},
		{
			id: "drain.refuses", why: "After Drain, the plugin refuses new calls and requests.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkDrainRefuses,
		},
		{
			id: "drain.finishes", why: "Calls that are running when Drain is called can finish.", kind: tool,
			needs: []string{"call.cancel"}, run: checkDrainFinishes,
		},
		{
			id: "session.handover", why: "A plugin that declares handover resumes its sessions after it was killed with SIGKILL.", kind: tool,
			needs: []string{"call.order", "thread.stream", "thread.unknown"}, run: checkHandover,
		},
		{
			id: "stop.exits", why: "The process exits soon after the response to Stop.",
			needs: []string{"configure.accepts"}, run: checkStop,
		},
		{
			id: "call.hangup", why: "When the host cancels the RPC, the call ends.", kind: tool,
			needs: []string{"drain.counts", "call.cancel"}, run: checkHangUp,
		},
		{
			id: "shutdown.exits", why: "After the response to GRPCController.Shutdown, the process exits with status 0 within two seconds.",
			needs: []string{"start.handshake"}, run: checkShutdown,
		},
		{
			id: "shutdown.socket", why: "An orderly exit removes the socket.",
			needs: []string{"shutdown.exits", "start.socket"}, run: checkShutdownSocket,
		},
		{
			id: "shutdown.children", why: "No process that the plugin started outlives it.",
			needs: []string{"shutdown.exits"}, run: checkShutdownChildren,
		},
		{
			id: "sigterm.exits", why: "The process ends within two seconds of SIGTERM.",
			needs: []string{"start.handshake"}, run: checkSIGTERM,
		},
		{
			id: "lifeline.exits", why: "When the lifeline closes, the process exits within a second, even during a call, so that a plugin never outlives its host.",
			needs: []string{"start.handshake"}, run: checkLifeline,
		},
		{
			id: "host.killed", why: "The process also exits if stdout, stderr and all connections are closed, as after a SIGKILL of the host.",
			needs: []string{"lifeline.exits"}, run: checkHostKilled,
		},
		{
			id: "restart.leaves", why: "Repeated starts and stops leave nothing behind.",
			needs: []string{"shutdown.exits"}, run: checkRestarts,
		},
	}
}
