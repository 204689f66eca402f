package plugintest

import "github.com/gantry-agent/gantry/sdk/contract"

// Check describes one check of the kit.
type Check struct {
	ID   string // stable
	Why  string // the rule, in one sentence
	Kind string // of the plugins it is for, "tool" or "provider"; empty: all
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

// checks is the suite. The order matters: cheap and basic ones come first, those that end processes last, and a check
// stands behind all that it needs.
func checks() []check {
	const tool, provider = contract.KindTool, contract.KindProvider
	return []check{
		// By hand: without a host.
		{id: "binary.runs", why: "The file can be started on this machine.", run: checkBinary},
		{
			id: "cookie", why: "Started by hand it explains itself on stderr and exits with status 1.",
			needs: []string{"binary.runs"}, run: checkCookie,
		},
		{
			id: "describe.flag", why: "--describe prints the manifest as one line of canonical JSON, so that nothing has to be started to know it.",
			needs: []string{"binary.runs"}, run: checkDescribeFlag,
		},
		{
			id: "version.flag", why: "--version prints name and version.",
			needs: []string{"describe.flag"}, run: checkVersionFlag,
		},
		{
			id: "describe.constant", why: "The manifest depends on neither time nor place: consent and caches hang on its digest.",
			needs: []string{"describe.flag"}, run: checkDescribeConstant,
		},
		{
			id: "manifest.valid", why: "Names, version, kind, commands and limits of the manifest follow the rules, and it speaks this contract.",
			needs: []string{"describe.flag"}, run: checkManifest,
		},
		{
			id: "config.schema", why: "The schema of the config block is consistent in itself, defaults included: the host decodes the user's file with it.",
			needs: []string{"describe.flag"}, run: checkConfigSchema,
		},

		// The start.
		{
			id: "start.handshake", why: "The first line on stdout is the handshake, and somebody listens where it says.",
			needs: []string{"binary.runs"}, run: checkHandshake,
		},
		{
			id: "start.socket", why: "The socket lies right in the folder that the host made for it, with a path that fits.",
			needs: []string{"start.handshake"}, run: checkSocket,
		},
		{
			id: "start.time", why: "The handshake comes within five seconds.",
			needs: []string{"start.handshake"}, run: checkStartTime,
		},
		{
			id: "start.token", why: "Every rpc without the token of the lifeline is refused: others may reach the socket.",
			needs: []string{"start.handshake"}, run: checkToken,
		},
		{
			id: "start.health", why: "It answers health checks, also without a token: that is how a host tells a slow plugin from a hung one.",
			needs: []string{"start.handshake"}, run: checkHealth,
		},
		{
			id: "describe.equal", why: "Describe answers what --describe prints, each time the same.",
			needs: []string{"start.handshake", "describe.constant"}, run: checkDescribeEqual,
		},

		// Configure.
		{
			id: "configure.accepts", why: "The given configuration is accepted.",
			needs: []string{"describe.equal", "config.schema"}, run: checkAccepts,
		},
		{
			id: "start.bare", why: "It needs no home folder, no terminal, nothing on stdin, and no working directory that can be written.",
			needs: []string{"configure.accepts"}, run: checkBare,
		},
		{
			id: "configure.again", why: "A running plugin can be configured again: users change their files.",
			needs: []string{"configure.accepts"}, run: checkAgain,
		},
		{
			id: "configure.type", why: "A value of the wrong type is a diagnostic at its path, never a status code, and costs nothing but the attempt.",
			needs: []string{"configure.again"}, run: checkWrongType,
		},
		{
			id: "configure.missing", why: "A missing value is a diagnostic, never a status code.",
			needs: []string{"configure.again"}, run: checkMissing,
		},
		{
			id: "configure.unknown", why: "An unknown attribute is a diagnostic, never ignored: it is a typing error.",
			needs: []string{"configure.again"}, run: checkUnknown,
		},

		// Messages of any kind.
		{
			id: "message.large", why: "Messages up to the announced limit are received.",
			needs: []string{"start.handshake"}, run: checkLarge,
		},
		{
			id: "message.limit", why: "A message over the limit fails that rpc with RESOURCE_EXHAUSTED and nothing else.",
			needs: []string{"start.handshake"}, run: checkLimit,
		},
		{
			id: "command.unknown", why: "A command that nobody declared is refused.",
			needs: []string{"configure.accepts"}, run: checkCommand,
		},

		{
			id: "command.effects", why: "A command that stores or starts something says that it has side effects: a host runs it only when the user agrees.",
			needs: []string{"command.unknown"}, run: checkCommandEffects,
		},

		// Tools.
		{
			id: "watch.first", why: "Watch sends the tools with a revision at once.", kind: tool,
			needs: []string{"configure.accepts"}, run: checkWatch,
		},
		{
			id: "watch.lasts", why: "Watch lasts as long as the plugin: its end would mean that the tools are gone.", kind: tool,
			needs: []string{"watch.first"}, run: checkWatchLasts,
		},
		{
			id: "tools.schema", why: "Every tool has a valid name and a schema or grammar that compiles.", kind: tool,
			needs: []string{"watch.first"}, run: checkToolSchemas,
		},
		{
			id: "thread.stream", why: "Thread lasts as long as the thread uses the plugin, and what it sends stays within bounds.", kind: tool,
			needs: []string{"configure.accepts"}, run: checkThread,
		},
		{
			id: "thread.unknown", why: "StopSession and EndThread take ids that they don't know: both may come twice.", kind: tool,
			needs: []string{"configure.accepts"}, run: checkUnknownThread,
		},
		{
			id: "call.order", why: "A call sends started first, one result last, and nothing after it.", kind: tool,
			needs: []string{"watch.first"}, run: checkOrder,
		},
		{
			id: "call.arguments", why: "Bad arguments are an error result that the model can read, never a status code.", kind: tool,
			needs: []string{"call.order"}, run: checkArguments,
		},
		{
			id: "call.unknown", why: "A call of a tool that doesn't exist is an error result: the model made it up, or the set has changed.", kind: tool,
			needs: []string{"call.order"}, run: checkUnknownTool,
		},
		{
			id: "call.example", why: "The examples that should answer do.", kind: tool,
			needs: []string{"call.order"}, run: checkExamples,
		},
		{
			id: "call.output", why: "Output comes in deltas of at most 8192 bytes with true offsets, cut between characters, and not more of it than the cap.", kind: tool,
			needs: []string{"call.example"}, run: checkOutput,
		},
		{
			id: "call.assess", why: "Assess says what a call would do, and answers bad arguments early instead of failing.", kind: tool,
			needs: []string{"call.order"}, run: checkAssess,
		},
		{
			id: "call.parallel", why: "A hundred calls at once are all answered, or refused beyond the number that the manifest declares.", kind: tool,
			needs: []string{"call.order"}, run: checkParallel,
		},
		{
			id: "call.cancel", why: "A cancelled call still answers, within two seconds.", kind: tool,
			needs: []string{"call.order"}, run: checkCancel,
		},
		{
			id: "call.deadline", why: "A call that runs over its deadline ends by itself and still answers.", kind: tool,
			needs: []string{"call.order"}, run: checkDeadline,
		},
		{
			id: "call.crash", why: "A handler that panics or throws costs its own call only.", kind: tool,
			needs: []string{"call.order"}, run: checkCrash,
		},
		{
			id: "call.backpressure", why: "Output that the host doesn't read is held back, not gathered: at most 64 MiB more memory.", kind: tool,
			needs: []string{"call.order"}, run: checkBackpressure,
		},

		// Providers.
		{
			id: "models.rows", why: "Models lists rows with unique ids and sensible numbers.", kind: provider,
			needs: []string{"configure.accepts"}, run: checkModels,
		},
		{
			id: "prepare.answers", why: "Prepare shows the request that would be sent.", kind: provider,
			needs: []string{"models.rows"}, run: checkPrepare,
		},
		{
			id: "prepare.redacts", why: "Prepare shows no secret.", kind: provider,
			needs: []string{"prepare.answers"}, run: checkRedacts,
		},
		{
			id: "stream.order", why: "The events of an answer follow their order, and the last one is finish or error.", kind: provider,
			needs: []string{"models.rows"}, run: checkStreamOrder,
		},
		{
			id: "stream.cancel", why: "A host that hangs up ends the request and nothing else.", kind: provider,
			needs: []string{"stream.order"}, run: checkStreamCancel,
		},

		{
			id: "capabilities.declared", why: "It asks the host only for what its manifest declares: a host refuses the rest.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkCapabilities,
		},
		{
			id: "message.unknown", why: "Unknown fields, controls and abilities are ignored: a newer host sends them.",
			needs: []string{"configure.again", "call.order", "models.rows"}, run: checkUnknownFields,
		},

		// Everything from here on starts processes of its own.
		{
			id: "permissions.exec", why: "It starts processes through the host only, which knows what it may start.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkExec,
		},
		{
			id: "permissions.network", why: "What does not declare the capability network works without one: a host keeps it from it.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkNetwork,
		},
		{
			id: "permissions.read", why: "It opens none of the user's keys: a host hides them.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkReads,
		},
		{
			id: "permissions.write", why: "It writes to its own folders only, and where it is granted more.", kind: tool,
			needs: []string{"configure.accepts", "call.order"}, run: checkWrites,
		},
		{
			id: "message.old", why: "Fields that an older host doesn't send are not needed.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkOldHost,
		},
		{
			id: "start.mtls", why: "Asked for mutual TLS it serves nobody without the host's certificate: not every platform tells who is at the other end.",
			needs: []string{"start.token"}, run: checkTLS,
		},

		// The end.
		{
			id: "drain.counts", why: "Drain returns at its deadline and says how many calls still run.",
			needs: []string{"configure.accepts", "call.order"}, run: checkDrainCounts,
		},
		{
			id: "drain.refuses", why: "After Drain nothing new is taken.",
			needs: []string{"configure.accepts", "call.order", "models.rows"}, run: checkDrainRefuses,
		},
		{
			id: "drain.finishes", why: "Drain lets what runs come to its result.", kind: tool,
			needs: []string{"call.cancel"}, run: checkDrainFinishes,
		},
		{
			id: "session.handover", why: "What says that its sessions are handed over goes on with them after a kill -9.", kind: tool,
			needs: []string{"call.order", "thread.stream", "thread.unknown"}, run: checkHandover,
		},
		{
			id: "stop.exits", why: "Stop ends the process soon after the answer.",
			needs: []string{"configure.accepts"}, run: checkStop,
		},
		{
			id: "call.hangup", why: "When the host ends the rpc the call is over: nothing runs on unseen.", kind: tool,
			needs: []string{"drain.counts", "call.cancel"}, run: checkHangUp,
		},
		{
			id: "shutdown.exits", why: "GRPCController.Shutdown is answered, then the process exits with status 0 within two seconds.",
			needs: []string{"start.handshake"}, run: checkShutdown,
		},
		{
			id: "shutdown.socket", why: "An orderly end removes the socket.",
			needs: []string{"shutdown.exits", "start.socket"}, run: checkShutdownSocket,
		},
		{
			id: "shutdown.children", why: "Nothing that the plugin started outlives it.",
			needs: []string{"shutdown.exits"}, run: checkShutdownChildren,
		},
		{
			id: "sigterm.exits", why: "SIGTERM ends it within two seconds.",
			needs: []string{"start.handshake"}, run: checkSIGTERM,
		},
		{
			id: "lifeline.exits", why: "When the lifeline closes it exits within a second, also in the middle of a call: a plugin never outlives its host.",
			needs: []string{"start.handshake"}, run: checkLifeline,
		},
		{
			id: "host.killed", why: "The same when nobody reads stdout and stderr any more and the connections are gone, as after a kill -9 of the host.",
			needs: []string{"lifeline.exits"}, run: checkHostKilled,
		},
		{
			id: "restart.leaves", why: "Started and stopped again and again it leaves nothing behind.",
			needs: []string{"shutdown.exits"}, run: checkRestarts,
		},
	}
}
