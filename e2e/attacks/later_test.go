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
	{id: "M26", attempt: "keep a hook from being moved aside: folders without the right to write, to list or to enter them (`chmod 555 .git .git/hooks`, `chmod 111`)", required: "not there afterwards", codex: "", ours: "the right is taken for a moment",
		tests: []string{"host/internal/launch/box TestWhatResistsBeingMovedAside", "host/internal/launch/box TestRightsAreTakenForAMomentOnly"}},
	{id: "M27", attempt: "the same above `.codex` and `.hg`", required: "not there afterwards", codex: "", ours: "moved aside", tests: []string{"host/internal/launch/box TestWhatResistsBeingMovedAside"}},
	{id: "M28", attempt: "take the names that it could be moved to, a thousand of them", required: "not there afterwards", codex: "", ours: "gets a name at random", tests: []string{"host/internal/launch/box TestWhatResistsBeingMovedAside"}},
	{id: "M29", attempt: "a name of 243 to 255 bytes, to which nothing can be added", required: "not there afterwards", codex: "", ours: "gets a short name at random", tests: []string{"host/internal/launch/box TestWhatResistsBeingMovedAside"}},
	{id: "M30", attempt: "settings of agents at a path of more than 4,096 bytes", required: "not there afterwards", codex: "", ours: "moved aside, folder by folder", tests: []string{"host/internal/launch/box TestALongPathIsMovedAside"}},
	{id: "M31", attempt: "in a folder in which nothing can be renamed (append only)", required: "not executed, or nothing more runs", codex: "", ours: "files are emptied; for what can't be, the next command is refused, and the message names it",
		tests: []string{"host/internal/launch/box TestWhatCanNotBeMovedAside"}},
	{id: "M32", attempt: "a hook that is a hard link to the user's work, so that emptying it would destroy that", required: "the work stays, and nothing more runs", codex: "", ours: "as required", tests: []string{"host/internal/launch/box TestWhatCanNotBeMovedAside"}},
}
