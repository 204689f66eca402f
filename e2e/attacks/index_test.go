package attacks_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// indexed are rows about when what commands make is judged: while they run, behind their calls, after a kill, among a great many folders.
var indexed = []row{
	{id: "I1", attempt: "a running session creates a repository whose settings name a program, and a rule lets `git status` run there outside of the sandbox", required: "the program is not executed", codex: "",
		ours: "what the session has made is moved aside before git starts", flow: ruleIntoASession},
	{id: "I2", attempt: "gantry is killed (KILL) while a command has made hooks, settings of git and of an agent", required: "the next gantry does not mistake them for the user's own", codex: "",
		ours: "it moves them aside when it starts, and says so, without any command", flow: killedWith(syscall.SIGKILL)},
	{id: "I3", attempt: "the same with QUIT", required: "the same", codex: "", ours: "the same", flow: killedWith(syscall.SIGQUIT)},
	{id: "I4", attempt: "a backup puts back what was there, after a kill", required: "it stays", codex: "", ours: "it is recognized by its content", tests: []string{"host/internal/launch/box TestNextGantryQuarantines"}},
	{id: "I5", attempt: "make 60,000 folders and a repository in one of them, so that a limit on folders leaves it unchecked and writable", required: "everything is judged, everything stays read-only", codex: "",
		ours: "there is no limit", tests: []string{"host/internal/launch/box TestManyFoldersAreSearched"}},
	{id: "I6", attempt: "a session creates something that is executed later, after its call has returned", required: "it is moved aside at once", codex: "", ours: "as required", tests: []string{"host/internal/launch/box TestSessionFilesAreQuarantinedAtOnce"}},
	{id: "I7", attempt: "the same in a loop, to win the race against what runs outside", required: "nothing runs outside meanwhile", codex: "",
		ours: "what would run outside is refused after the second time, and the session ended after a hundred parts", tests: []string{"host/internal/launch/box TestSessionFilesAreQuarantinedAtOnce"}},
	{id: "I8", attempt: "start another command, which could take what a running session has created for the user's own", required: "it is judged as of the oldest running session", codex: "", ours: "as required", tests: []string{"host/internal/launch/box TestOldestCommandIsBaseline"}},
	{id: "I9", attempt: "use anything that runs outside during a call: a hook, an approved command, a secret's program", required: "it finds nothing that a command has made", codex: "",
		ours: "the launcher judges before it starts anything unconfined", tests: []string{"host/internal/launch/box TestSettleQuarantinesSessionFiles"}},
	{id: "I10", attempt: "overflow the queue of the kernel's notifications", required: "nothing is overlooked", codex: "", ours: "all folders are compared", tests: []string{"host/internal/launch/box/tree TestTooManyNotifications"}},
	{id: "I11", attempt: "use up the kernel's watches", required: "nothing is overlooked", codex: "", ours: "all folders are compared, for each command", tests: []string{"host/internal/launch/box/tree TestTreeMatchesFileSystem"}},
	{id: "I12", attempt: "rename, exchange and nest folders in a loop while they are read and watched", required: "nothing is overlooked", codex: "", ours: "folders are known by their inodes", tests: []string{"host/internal/launch/box/tree TestConcurrentlyMovedFolders"}},
	{id: "I13", attempt: "folders so deep that no path reaches them", required: "nothing is overlooked", codex: "", ours: "they are reached one from another", tests: []string{"host/internal/launch/box/tree TestDeepFolders"}},
	{id: "I14", attempt: "remove or replace the writable folder itself", required: "nothing that is known of the old folder is applied to the new one", codex: "", ours: "it is read anew", tests: []string{"host/internal/launch/box/tree TestRootFolder"}},
	{id: "I15", attempt: "damage the file in which the index is kept", required: "it is not used", codex: "", ours: "it is read anew", tests: []string{"host/internal/launch/box/tree TestTreeFile", "host/internal/launch/box/tree FuzzStore"}},
	{id: "I16", attempt: "what the user creates between commands, or what a command was allowed to create by name", required: "it stays", codex: "", ours: "as required",
		tests: []string{"host/internal/launch/box TestUserFilesBetweenCommandsStay", "host/internal/launch/box TestOpenedFilesAreNotQuarantined"}},
	{id: "I17", attempt: "have gantry itself rewrite what `deny_write` names, or rename the user's files: make their folder a repository (`HEAD`, `commondir`, a `.git` file), Mercurial's folder, or the place to which settings lead", required: "the user's files stay as they are", codex: "",
		ours: "what the command has added is moved aside instead: the `HEAD`, the link, the folder's new name", tests: []string{"host/internal/launch/box TestExistingFilesAreNotQuarantined"}},
	{id: "I18", attempt: "the same before a kill", required: "the same", codex: "", ours: "the same, by the next gantry", tests: []string{"host/internal/launch/box TestExistingFilesAreNotQuarantined"}},
	{id: "I19", attempt: "write a hook, settings, or what `deny_write` names by another name of the file in the same folder (a hard link)", required: "denied", codex: "",
		ours: "its other names are read-only as well", tests: []string{"host/internal/launch/box TestHardLinkOfProtectedFile"}},
	{id: "I20", attempt: "put a link in the place of a writable folder in another one, or on the way to it, so that no later command runs, or that it runs elsewhere", required: "neither", codex: "",
		ours: "the link is moved aside, also by the next command and after a kill", tests: []string{"host/internal/launch/box TestLinkReplacesRoot"}},
	{id: "I21", attempt: "write what programs in git's settings find for themselves: the module of `python3 -m`, the Makefile of `make -C`, the folder of `go run` or `node`", required: "denied, or moved aside", codex: "",
		ours: "they are read-only, and moved aside where they are new", tests: []string{"host/internal/launch/box TestReferencedFilesAreReadOnly"}},
	{id: "I22", attempt: "go on in a folder that the user has renamed, with another one in its place", required: "it is judged where it lies, and the other one is the user's", codex: "",
		ours: "folders are known by their inodes, also after a kill", tests: []string{"host/internal/launch/box TestUserReplacesRootDuringCommand", "host/internal/launch/box TestSessionInReplacedRoot", "host/internal/launch/box TestUserReplacesRoot"}},
	{id: "I23", attempt: "make hooks and settings while the command is being ended after a kill of gantry, later than the next gantry has looked", required: "not there afterwards", codex: "",
		ours: "looked at again when the killed gantry's launchers have ended", tests: []string{"host/internal/launch/box TestFilesCreatedAfterKill", "host/internal/launch/box TestFilesCreatedAfterRestart"}},
}

// evilRepository is a script that makes one whose settings, hooks and neighbours are executed later.
const evilRepository = `mkdir -p fresh/.git/hooks fresh/.git/objects fresh/.git/refs agent/.codex; echo ref: refs/heads/x > fresh/.git/HEAD; ` +
	`printf '#!/bin/sh\ntouch ../ran ran\n' > fresh/fsm; chmod +x fresh/fsm; printf '[core]\n\tfsmonitor = ./fsm\n' > fresh/.git/config; cp fresh/fsm fresh/.git/hooks/post-checkout; echo evil > agent/.codex/config.toml; echo made > made`

func ruleIntoASession(t *testing.T, w *world) {
	f := newFlow(t, w, "I1", "workspace-write", "never")
	f.Write(filepath.Join(f.Home, "rules", "my.rules"), `prefix_rule(pattern=["git", "status"])`)
	f.command("c1", evilRepository+`; sleep 600`, ", login = false, yield_time_ms = 1500")
	f.command("c2", `git status`, `, login = false, workdir = "fresh"`)
	f.prepare()
	res := f.OK(append([]string{"exec"}, append(f.args, "go")...)...)
	out := f.read(t, res)
	if f.Read("made") == "" || strings.Contains(out["c2"], "sandbox") {
		t.Errorf("it was not tried: %q", out)
	}
	for _, name := range []string{"ran", "fresh/ran"} {
		if f.Read(name) != "" || exists(filepath.Join(f.Dir, name)) {
			t.Error("the program was executed:", name)
		}
	}
	if !exists(filepath.Join(f.Dir, "agent/.codex.quarantined")) {
		t.Errorf("nothing was moved aside:\n%s", res.Stderr)
	}
}

func killedWith(signal syscall.Signal) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		f := newFlow(t, w, "killed-"+signal.String(), "workspace-write", "never")
		f.Write("old/.git/config", "[core]\n\tfsmonitor = mine\n")
		f.command("c1", evilRepository+`; sleep 600`, ", login = false, yield_time_ms = 30000")
		f.prepare()
		run := f.Start(append([]string{"exec"}, append(f.args, "go")...)...)
		f.Until("the command has made it", func() bool { return f.Read("made") != "" })
		run.Signal(signal)
		run.Wait()
		if !exists(filepath.Join(f.Dir, "agent/.codex")) {
			t.Fatal("it was gone before")
		}
		f.steps.Reset()
		f.ids = nil
		f.prepare()
		res := f.OK(append([]string{"exec"}, append(f.args, "hello")...)...)
		for _, name := range []string{"agent/.codex", "fresh/.git/hooks/post-checkout"} {
			if exists(filepath.Join(f.Dir, name)) {
				t.Errorf("%s is still there:\n%s", name, res.Stderr)
			}
		}
		if b, err := os.ReadFile(filepath.Join(f.Dir, "fresh/.git/config")); err == nil && strings.Contains(string(b), "fsmonitor") {
			t.Errorf("settings are %q", b)
		}
		if !strings.Contains(res.Stderr, ".codex.quarantined") {
			t.Errorf("it does not say so:\n%s", res.Stderr)
		}
		if b, err := os.ReadFile(filepath.Join(f.Dir, "old/.git/config")); err != nil || !strings.Contains(string(b), "mine") {
			t.Errorf("the user's own is %q, %v", b, err)
		}
	}
}
