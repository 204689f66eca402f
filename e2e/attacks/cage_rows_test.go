package attacks_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cageRows are the rows about what a plugin's own process tries. The rows of the sections F, P and N are tried there as well.
var cageRows = []row{
	{id: "C1", attempt: "have the kernel run a program outside when another one crashes: `core_pattern`", required: "denied, also to root", tries: []try{
		{do: `f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo "$v" > $f`, says: readOnly, box: caged, outside: depends},
		{do: `f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo "$v" > $f`, says: readOnly, box: networked, outside: depends},
	}},
	{id: "C2", attempt: "other settings of the kernel: memory, modprobe, the binary formats", required: "denied, also to root", tries: []try{
		{do: `f=/proc/sys/vm/swappiness; v=$(cat $f) && echo "$v" > $f`, says: readOnly, box: caged, outside: depends},
		{do: `f=/proc/sys/kernel/hostname; v=$(cat $f) && echo "$v" > $f`, says: readOnly, box: caged, outside: depends},
		{do: `echo ':x:M::xx::/bin/true:' > /proc/sys/fs/binfmt_misc/register`, box: caged, outside: untried},
		{do: `find /proc/sys /sys -type f -writable 2>/dev/null | head -3 | grep .`, box: caged, outside: depends},
		{do: `echo 0 > /proc/self/oom_score_adj`, says: readOnly, box: caged},
	}},
	{id: "C3", attempt: "devices: virtual machines, networks, file systems, disks, faults of other programs", required: "denied, also to root", tries: []try{
		{do: `: <> /dev/kvm`, box: caged, outside: depends}, {do: `: <> /dev/net/tun`, box: caged, outside: depends}, {do: `: <> /dev/fuse`, box: caged, outside: depends},
		{do: `: <> /dev/loop-control`, box: caged, outside: depends}, {do: `: < /dev/userfaultfd`, box: caged, outside: depends}, {do: `: < /dev/vda`, box: caged, outside: depends},
		{do: `ls /dev/input /dev/dri /dev/snd /dev/mapper /dev/bus 2>/dev/null | grep .`, box: caged, outside: depends},
	}},
	{id: "C4", attempt: "names and devices of its own in `/dev`", required: "denied", tries: []try{
		{do: `d=/dev/gantry-attacks-$$; mkdir $d && rmdir $d`, says: readOnly, box: caged, outside: asRoot},
		{do: `cd "$TMPDIR" && mknod memory c 1 1`, says: refused, box: caged, outside: depends},
	}},
	{id: "C5", attempt: "leave something in shared memory, or fill it", required: "its own, bounded, and gone with it", ours: "a file system of its own of 64 MiB, or as large as `limits { memory }`", tries: []try{
		{do: `head -c 1048576 /dev/zero > /dev/shm/gantry-attacks-cage`, works: true, box: caged, outside: untried},
		{do: `head -c 1073741824 /dev/zero > /dev/shm/gantry-attacks-full`, says: "No space left", box: networked, outside: untried},
	}, flow: func(t *testing.T, w *world) {
		if exists("/dev/shm/gantry-attacks-cage") {
			t.Error("it is in the machine's /dev/shm")
		}
	}},
	{id: "C6", attempt: "read other programs' temporary files, or leave one", required: "denied: a /tmp of its own", tries: []try{
		{do: `cat "$TMP_FILE"`, says: noFile, box: caged},
		{do: `ls -d /tmp/gantry-* | grep .`, box: caged, outside: untried},
		{do: `echo x > /tmp/gantry-attacks-cage-left`, works: true, box: caged, outside: untried},
	}, flow: func(t *testing.T, w *world) {
		if exists("/tmp/gantry-attacks-cage-left") {
			t.Error("it is in the machine's /tmp")
		}
	}},
	{id: "C7", attempt: "tell the user's tmux what to run", required: "denied", tries: []try{{call: "tmux", box: caged}, {call: "tmux", says: notPermitted, box: networked}}},
	{id: "C8", attempt: "use the keys of an agent: ssh-agent, gpg-agent", required: "denied", tries: []try{{call: "an agent with keys", box: caged}, {call: "an agent with keys", says: notPermitted, box: networked}}},
	{id: "C9", attempt: "the screen: by its path and by its abstract name", required: "denied", tries: []try{
		{call: "the screen", box: caged}, {call: "the screen, by its other name", says: notPermitted, box: caged}, {call: "the screen, by its other name", says: notPermitted, box: networked},
	}},
	{id: "C10", attempt: "sockets in the home and in the project: editors, development servers", required: "denied", tries: []try{
		{call: "a socket in the home", says: notPermitted, box: caged}, {call: "a socket in the project", says: notPermitted, box: caged}, {call: "a socket in the project", says: notPermitted, box: networked},
	}},
	{id: "C11", attempt: "databases, and other services outside of `/run`", required: "denied", tries: []try{
		{call: "a database", says: notPermitted, box: caged}, {call: "a service", says: notPermitted, box: networked},
	}},
	{id: "C12", attempt: "reach a socket by a link, or in the place of the one that leads to gantry", required: "denied: the host makes both ends", tries: []try{
		{call: "a socket by a link", says: notPermitted, box: caged}, {call: "a socket by a name of its own", box: caged, outside: untried}, {call: "a socket by a name of its own", box: networked, outside: untried},
	}, tests: []string{"host/internal/launch/box TestPluginSandboxWithNetwork"}},
	{id: "C13", attempt: "change the address in memory while it is being checked", required: "denied: the address that was checked is the one that is connected", ours: "the host connects to its own copy of the address", tests: []string{"host/internal/launch/box TestPluginSandboxWithNetwork"}},
	{id: "C14", attempt: "datagrams to services: logs, the journal, abstract names", required: "denied", tries: []try{
		{call: "sendto", says: notPermitted, box: caged}, {call: "sendmsg", says: notPermitted, box: networked}, {call: "an abstract datagram", says: notPermitted, box: networked}, {call: "a pair of datagrams", says: notPermitted, box: caged},
	}},
	{id: "C15", attempt: "the run socket of gantry, with a home of a short and of a long path: run a command as its user", required: "denied", ours: "not seen, and not reached", flow: runSocket},
	{id: "C16", attempt: "the folder of an ephemeral thread in `/tmp`", required: "not seen", ours: "not seen", flow: ephemeralFolder},
	{id: "C17", attempt: "another plugin's socket, and what it keeps", required: "not seen, not reached", tries: []try{
		{do: `find / -name 'plugin-dir*' -path '*h*' 2>/dev/null | grep -v "^$PLUGIN_UNIX_SOCKET_DIR" | grep .`, box: caged, outside: untried},
		{do: `ls "$(dirname "$PLUGIN_UNIX_SOCKET_DIR")" | wc -l | grep -v '^1$'`, box: caged, outside: untried},
	}, tests: []string{"host/internal/grants TestUsersFilesInTheHome"}},
	{id: "C18", attempt: "the same without namespaces, where nothing can be hidden or made anew", required: "writing and connecting are refused all the same", ours: "Landlock names devices one by one, and the host makes connections", tests: []string{"host/internal/launch/box TestPluginSandboxWithoutNamespaces"}},
	{id: "C19", attempt: "`gantry plugin add` starts the program to learn what it is", required: "nothing is started before its user has agreed to this very program", ours: "asked with path and digest; a no starts nothing, and a program that was changed meanwhile is not locked", tests: []string{"e2e TestPluginAddAsksFirst"}},
	{id: "C20", attempt: "replace the program between the yes to `plugin add` and the lock", required: "not locked", ours: "only the program with the digest that was agreed to is started and locked", tests: []string{"e2e TestPluginAddLocksWhatWasAgreedTo"}},
	{id: "C21", attempt: "fill the disk with state", required: "bounded, with an error that names the setting", ours: "64 MiB, or `limits { state }`; an error to the plugin, one notice to the user", tests: []string{"host/internal/service TestQuotas", "host/internal/service TestRoomForState"}},
	{id: "C22", attempt: "keep state for threads that are not there", required: "denied", ours: "denied", tests: []string{"host/internal/service TestRoomForState"}},
	{id: "C23", attempt: "fill the disk with artifacts", required: "bounded, with an error that names the setting", ours: "4 GiB while one gantry runs, or `limits { artifacts }`", tests: []string{"host/internal/service TestQuotas"}},
	{id: "C24", attempt: "fill the store with events that are kept", required: "bounded, with an error that names the setting", ours: "64 MiB while one gantry runs, or `limits { events }`", tests: []string{"host/internal/service TestQuotas"}},
	{id: "C25", attempt: "fill the disk by its own folders, or with files without end", required: "bounded", ours: "measured every few seconds while it is called, twice a minute otherwise: with more than 1 GiB, or `limits { storage }`, or 200,000 files, or a folder that can't be read it is stopped", tests: []string{"host/internal/plugin TestLimitsOfTheTree", "host/internal/plugin/storage TestMeasure", "host/internal/plugin/storage TestMeasureUnreadableFolders"}},
	{id: "C26", attempt: "a handshake that names a socket of another program", required: "denied", ours: "the host speaks only to a socket in the plugin's own folder on which the plugin's process listens", tests: []string{"host/internal/plugin TestPluginSocketRefusesOtherClients", "e2e TestHostilePrograms"}},
	{id: "C27", attempt: "the machine's password files, as root", required: "not seen", tries: []try{
		{do: `grep root: /etc/shadow`, box: caged, outside: asRoot}, {do: `grep root: /etc/shadow`, box: networked, outside: asRoot},
	}},
	{id: "C28", attempt: "fill the disk by secrets, and by the labels of artifacts", required: "bounded, with an error that names the setting", ours: "secrets are bounded by `limits { state }`, labels count toward `limits { artifacts }`", tests: []string{"host/internal/service TestQuotas"}},
	{id: "C29", attempt: "take a plugin's share of the disk, and far more, in one call or between two calls: `fallocate`, a thread that goes on writing", required: "bounded", ours: "`fallocate` is unknown there; the disk is looked at several times a second, and the folders measured when it has lost more than the plugin has left", tries: []try{
		{do: `f="${TMPDIR:-/tmp}/gantry-attacks-share-$$"; fallocate -l 1M "$f"; r=$?; rm "$f"; exit $r`, says: "not supported", box: caged}, {do: `f="${TMPDIR:-/tmp}/gantry-attacks-share-$$"; fallocate -l 1M "$f"; r=$?; rm "$f"; exit $r`, says: "not supported", box: networked},
	}, tests: []string{"host/internal/plugin TestLimitsOfTheTree"}},
	{id: "C30", attempt: "start a declared process with a program, arguments, a folder, variables or rights of its own, one of another plugin, or one that is not declared", required: "refused",
		ours: "refused: the request has only a name", tests: []string{"host/internal/service TestDeclaredProcess"}},
	{id: "C31", attempt: "read the values of a declared process's variables", required: "denied", ours: "the plugin gets names alone; there is no handle", tests: []string{"e2e TestDeclaredProcesses", "config TestProcesses"}},
	{id: "C32", attempt: "a declared process writes, reaches hosts that its block does not name, or goes past the proxy", required: "denied", ours: "EROFS; refused by the proxy; no other way out", tests: []string{"e2e TestDeclaredProcesses"}},
	{id: "C33", attempt: "a declared process stays: it ignores signals, has a daemon, and its plugin or gantry is killed", required: "nothing is left", ours: "nothing is left within a second", tests: []string{"e2e TestDeclaredProcessesEnd"}},
	{id: "C34", attempt: "a declared process leaves a hook of git's in its writable folder, and never ends", required: "moved aside", ours: "moved aside while it runs", tests: []string{"e2e TestFilesOfADeclaredProcess"}},
}

// reachSockets looks for sockets of gantry's, and connects to whatever is there.
const reachSockets = `python3 -c '
import glob, os, socket
found = glob.glob("/tmp/gantry-*/**", recursive=True) + glob.glob(os.environ["LONG_HOME"] + "/run/**", recursive=True) + glob.glob(os.environ["LONG_HOME"] + "/*.db*")
print("found", found)
for p in found:
    if p.startswith(os.environ["PLUGIN_UNIX_SOCKET_DIR"] + "/"):
        continue
    try:
        socket.socket(socket.AF_UNIX).connect(p)
        print("REACHED", p)
    except OSError as e:
        print(p, e)
' 2>&1; echo looked`

// runSockets are those of threads.
var runSockets = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}\.sock`)

func runSocket(t *testing.T, w *world) {
	for name, home := range map[string]string{"short": "h", "long": strings.Repeat("a-long-name/", 7) + "h"} {
		f := newFlow(t, w, "C15"+name, "workspace-write", "never")
		f.plugin(t, caged)
		old := f.Home
		f.Home = filepath.Join(f.world.top, home)
		mkdir(t, f.Home)
		if err := os.CopyFS(f.Home, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		f.environ = append(f.world.env(), "GANTRY_HOME="+f.Home)
		f.world.extra = append(f.world.extra, "LONG_HOME="+f.Home)
		f.attack(caged, reachSockets)
		f.run(t)
		if said := f.said(t, caged); strings.Contains(said, "REACHED") || !strings.Contains(said, "looked") || runSockets.MatchString(said) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func ephemeralFolder(t *testing.T, w *world) {
	f := newFlow(t, w, "C16", "workspace-write", "never")
	f.world.extra = append(f.world.extra, "LONG_HOME="+f.Home)
	f.plugin(t, caged)
	f.attack(caged, reachSockets)
	f.args = append(f.args, "--ephemeral")
	f.run(t)
	if said := f.said(t, caged); strings.Contains(said, "threads.db") || !strings.Contains(said, "looked") {
		t.Error(said)
	}
}
