package attacks_test

// later are more rows about what others execute later: what is missing, what settings name, and what resists being moved aside.
var later = []row{
	{id: "M22", attempt: "make a protected name after somebody has removed the real one outside, while a session runs: `rmdir .codex`, `git clean -fdx`, `rm -rf .git && git init`", required: "not there afterwards", codex: "",
		ours: "what lies there is compared with what was held, by device, inode and time of birth; what is new is moved aside", tests: []string{"host/internal/launch/box TestAProtectedNameThatIsRemovedOutside"}},
	{id: "M23", attempt: "make what `deny_read` or `deny_write` names and is missing: a file, a folder, by a link, by a link on the way", required: "not there afterwards, and not read by the next command", codex: "",
		ours: "moved aside, and denied under its new name", tests: []string{"host/internal/launch/box TestWhatIsDeniedAndMissingIsMovedAside"}},
	{id: "M24", attempt: "have gantry's own protection break the user's work: `go build`, `git init`, `git clone URL .` during a turn and after a kill", required: "nothing of gantry's lies in the folder", codex: "folders while a command runs",
		ours: "as required", tests: []string{"e2e TestTheUserWorksInTheSameFolder", "e2e TestRepositoriesAreBegunInTheWorkspace", "host/internal/launch/box TestNothingAppearsInTheWorkspace"}},
	{id: "M25", attempt: "begin a repository at the top of the workspace, with hooks and settings in it, in its submodules and among its objects", required: "what is executed is not there afterwards", codex: "EROFS",
		ours: "moved aside; the repository stays", tests: []string{"host/internal/launch/box TestARepositoryAtTheTopKeepsNothingThatIsExecuted", "host/internal/launch/box TestRepositoriesAreMadeAtTheTop"}},
}
