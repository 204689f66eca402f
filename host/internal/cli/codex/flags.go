package codex

// notHere are flags of codex's exec that gantry lacks, with their alternatives.
var notHere = map[string]string{
	"approve-for-me":       "use -c guardian.enabled=true to let a model answer",
	"cyber-access-program": "omit it; it is specific to one vendor",
	"local-provider":       "use --model PROVIDER/MODEL with a model of a local server; docs/guides/providers.md shows the server's block",
	"oss":                  "use --model PROVIDER/MODEL with a model of a local server; docs/guides/providers.md shows the server's block",
	"search":               "use -c web_search=live to let the model search",
	"worktree":             "create one with `git worktree add`, and use it with --cd",
}

// Next returns the alternative to a flag of codex's exec that gantry lacks, or "" for other flags.
func Next(flag string) string { return notHere[flag] }
