package codex

// notHere are flags of codex's exec that gantry does not have, and how to get there.
var notHere = map[string]string{
	"approve-for-me":       "let a model answer with -c guardian.enabled=true",
	"cyber-access-program": "leave it out; it belongs to one vendor",
	"local-provider":       "name a model of a local server with --model PROVIDER/MODEL; docs/guides/providers.md has its block",
	"oss":                  "name a model of a local server with --model PROVIDER/MODEL; docs/guides/providers.md has its block",
	"search":               "let the model search with -c web_search=live",
	"worktree":             "make one with `git worktree add`, and work there with --cd",
}

// Next is what to do instead of giving a flag of codex's exec that gantry does not have; empty: it is no such flag.
func Next(flag string) string { return notHere[flag] }
