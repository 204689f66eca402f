package attacks_test

// effects are the rows about what plugins say of their calls, and what they ask the host for.
var effects = []row{
	{id: "A1", attempt: "a plugin starts what a rule lets out of the sandbox with `GIT_CONFIG_*` of its own", required: "refused", codex: "", ours: "refused, with the variables' names",
		tests: []string{"e2e TestRuleBindsTheEnvironment"}},
	{id: "A2", attempt: "the same with a `PATH` that finds another program", required: "refused", codex: "", ours: "refused", tests: []string{"e2e TestRuleBindsTheEnvironment"}},
	{id: "A3", attempt: "the same with a pager, or without a variable that protects", required: "refused", codex: "", ours: "refused", tests: []string{"e2e TestRuleBindsTheEnvironment", "host/internal/orchestrate TestProcessesBesideTheDeclared"}},
	{id: "A4", attempt: "the same in another folder than was declared, or declared for none", required: "refused: without a folder it is the call's", codex: "", ours: "refused", tests: []string{"e2e TestRuleBindsTheEnvironment"}},
	{id: "A5", attempt: "bring the allowed shell into a state that does something else first", required: "refused", codex: "", ours: "refused outside of the sandbox", tests: []string{"e2e TestRuleBindsTheEnvironment"}},
	{id: "A6", attempt: "`BASH_ENV` and `LD_PRELOAD` with a command that a person let out of the sandbox", required: "refused", codex: "", ours: "refused", tests: []string{"e2e TestApprovalBindsTheEnvironment"}},
	{id: "A7", attempt: "a permission that was approved for one command, for another one", required: "refused", codex: "", ours: "refused", tests: []string{"e2e TestApprovalBindsTheEnvironment"}},
	{id: "A8", attempt: "have a write approved without the sandbox, and start any program there", required: "refused: no program was named", codex: "", ours: "refused", tests: []string{"e2e TestApprovalBindsTheEnvironment"}},
	{id: "A9", attempt: "a tool that says it only reads starts a process that writes, under each policy", required: "not written, or asked about", codex: "", ours: "the process can't write; without a sandbox it is asked about",
		tests: []string{"e2e TestReadOnlyCallsWriteNothing"}},
	{id: "A10", attempt: "a call that says it reads, and declares that it writes", required: "it writes", codex: "", ours: "judged as what changes something", tests: []string{"host/internal/orchestrate TestReadOnlyIsWhatChangesNothing"}},
	{id: "A11", attempt: "a plugin without capabilities starts programs, calls tools, asks the model and the user, keeps secrets and state, takes a lease", required: "refused by name", codex: "", ours: "refused by name",
		tests: []string{"e2e TestCapabilitiesAreEnforced", "host/internal/service TestCapabilities"}},
	{id: "A12", attempt: "the same where the user's block grants only some, or none, of what it asks for", required: "refused by name", codex: "", ours: "refused, with the setting", tests: []string{"e2e TestCapabilitiesAreEnforced"}},
	{id: "A13", attempt: "a plugin starts a program that `permissions { exec }` does not name, or another one by a name that it does", required: "refused", codex: "", ours: "refused", tests: []string{"e2e TestProgramsAreEnforced"}},
	{id: "A14", attempt: "consent to what nothing enforces: single hosts, a provider's network", required: "no such setting", codex: "", ours: "refused where it is written", tests: []string{"config TestPermissionsThatCannotBeEnforced"}},
}
