package attacks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	readOnly = "Read-only file system"
	refused  = "Operation not permitted"
	noFile   = "No such file or directory"
	busy     = "Device or resource busy"
	noAccess = "Permission denied"
	across   = "Invalid cross-device link"
)

// files are the rows about what lies outside of the workspace.
var files = []row{
	{id: "F1", attempt: "write elsewhere: another folder, the home, `/etc`, `/run`, `/var/tmp`", required: "denied", codex: "EROFS for all", tries: []try{
		{do: `echo x > "$OUT/x"`, says: readOnly},
		{do: `echo x > "$HOME/x"`, says: readOnly},
		{do: `f=/etc/gantry-attacks-$$; echo x > $f && rm $f`, says: readOnly, outside: asRoot},
		{do: `f=/run/gantry-attacks-$$; echo x > $f && rm $f`, says: readOnly, outside: asRoot},
		{do: `f=/var/tmp/gantry-attacks-$$; echo x > $f && rm $f`, says: readOnly},
	}},
	{id: "F2", attempt: "change the mode, the times or the length of a file outside", required: "denied", codex: "EROFS", tries: []try{
		{do: `chmod 777 "$OUT/file"`, says: readOnly},
		{do: `touch "$OUT/file"`, says: readOnly},
		{do: `touch -d 2001-01-01 "$OUT/file"`, says: readOnly},
		{do: `truncate -s 0 "$OUT/file"`, says: readOnly},
	}},
	{id: "F3", attempt: "roundabout spellings: `../`, `a/../.git//hooks/./x`", required: "denied", codex: "EROFS", tries: []try{
		{do: `echo x > ../out/x`, says: readOnly},
		{do: `echo x > "$OUT/../out/./x"`, says: readOnly},
		{do: `mkdir -p a && echo x > a/../.git//hooks/./x`, says: readOnly},
	}},
	{id: "F4", attempt: "write through a symbolic link that leads outside and was there before", required: "denied", codex: "EROFS", tries: []try{
		{do: `echo x > link/x`, says: readOnly},
		{do: `echo x > rel/x`, says: readOnly},
	}},
	{id: "F5", attempt: "make a symbolic link that leads outside and write through it", required: "denied", codex: "EROFS", tries: []try{
		{do: `ln -s "$OUT" made && echo x > made/x`, says: readOnly},
		{do: `ln -s "$OUT/file" made2 && echo x >> made2`, says: readOnly},
	}},
	{id: "F6", attempt: "hard link of a file outside, or of `.git/config`, into the workspace", required: "denied", codex: "EXDEV", tries: []try{
		{do: `ln "$OUT/file" made-hard && echo x >> made-hard`, says: across},
		{do: `ln .git/config made-hard2 && echo x >> made-hard2`, says: across},
	}},
	{id: "F7", attempt: "write through a hard link that was there before, whose file also has a name outside", required: "denied", codex: "written", escaped: true, tries: []try{
		{do: `echo x >> hard`, says: readOnly},
		{do: `chmod 777 hard`, says: readOnly},
		{do: `mv hard moved-hard && echo x >> moved-hard`, says: busy},
		{do: `ln hard other-hard && echo x >> other-hard`, says: across},
		{do: `echo x >> twice && tail -1 file | grep -q x`, works: true}, // both names are in the workspace
	}},
	{id: "F8", attempt: "rename the workspace, or the folder above it", required: "denied", codex: "EROFS", tries: []try{
		{do: `mv "$WS" "$WS.moved" && mv "$WS.moved" "$WS"`, says: readOnly},
		{do: `mv "$TOP" "$TOP.moved" && mv "$TOP.moved" "$TOP"`, says: readOnly},
	}},
	{id: "F9", attempt: "`/proc/self/root`, `/proc/1/root`, `/proc/self/cwd` as a way out", required: "denied", codex: "EROFS", tries: []try{
		{do: `echo x > "/proc/self/root$OUT/x"`, says: readOnly},
		{do: `echo x > "/proc/1/root$OUT/x"`, outside: depends},
		{do: `echo x > /proc/self/cwd/../out/x`, says: readOnly},
	}},
	{id: "F10", attempt: "write below a folder that was open in the program that started gantry", required: "denied: closed before anything runs", codex: "written, where the host leaks a descriptor", escaped: true, tries: []try{
		{do: `for n in 3 4 5 6 7 8 9 10 11 12; do echo x > /proc/self/fd/$n/x && exit 0; done; exit 1`},
	}},
	{id: "F11", attempt: "write to a file that was open for writing there", required: "denied: closed before anything runs", codex: "written, where the host leaks a descriptor", escaped: true, tries: []try{
		{do: `( echo x >&4 )`, says: "Bad file descriptor"},
		{do: `for n in 3 4 5 6 7 8 9; do if [ -e /proc/self/fd/$n ]; then readlink /proc/self/fd/$n; exit 0; fi; done; echo none; exit 1`, says: "none"},
	}},
	{id: "F12", attempt: "write to `/dev/shm` and `/dev`", required: "private at most", codex: "private", ours: "private, gone with the command", tries: []try{
		{do: `echo x > /dev/shm/gantry-attacks-private && cat /dev/shm/gantry-attacks-private`, works: true, outside: untried},
	}, flow: func(t *testing.T, w *world) {
		if exists("/dev/shm/gantry-attacks-private") {
			t.Error("it is in the machine's /dev/shm")
		}
	}},
	{id: "F13", attempt: "open a disk, the kernel's memory or log as a device", required: "denied", codex: "ENOENT", tries: []try{
		{do: `: < /dev/vda`, says: "No such file", outside: depends},
		{do: `: < /dev/kmsg`, says: "No such file", outside: depends},
		{do: `: < /dev/mem`, says: "No such file", outside: depends},
	}},
	{id: "F14", attempt: "make a device", required: "denied", codex: "EPERM", tries: []try{
		{do: `mknod disk b 254 0`, says: refused, outside: depends},
		{do: `mknod memory c 1 1`, says: refused, outside: depends},
	}},
	{id: "F15", attempt: "start gantry with a TMPDIR that is somebody's folder, or `/`, and write there", required: "denied: only a temporary folder of its own", codex: "written; with `TMPDIR=/` the whole disk", escaped: true,
		ours: "EROFS: `/tmp` in the box is always the thread's own", flow: tmpdirElsewhere},
	{id: "F16", attempt: "start gantry with a TMPDIR that is relative", required: "a clean error", codex: "panic, exit 101", ours: "a clean error, or none", flow: tmpdirRelative},
	{id: "F17", attempt: "with `read-only`: write the workspace or `/tmp`", required: "denied", codex: "EROFS", tries: []try{
		{do: `echo x > x`, says: readOnly, box: "read-only"},
		{do: `rm file`, says: readOnly, box: "read-only"},
		{do: `f=/tmp/gantry-attacks-$$; echo x > $f && rm $f`, says: readOnly, box: "read-only"},
		{do: `f=$(mktemp) && rm "$f"`, says: readOnly, box: "read-only"},
		{do: `echo x > "$OUT/x"`, says: readOnly, box: "read-only"},
		{do: `echo x > .git/x`, says: readOnly, box: "read-only"},
	}},
	{id: "F18", attempt: "control groups and sysfs", required: "denied", codex: "EROFS", tries: []try{
		{do: `d=/sys/fs/cgroup/gantry-attacks-$$; mkdir $d && rmdir $d`, says: readOnly, outside: depends},
		{do: `f=/sys/kernel/mm/ksm/run; v=$(cat $f) && echo "$v" > $f`, says: readOnly, outside: depends},
	}},
	{id: "F19", attempt: "`core_pattern` and other settings of the kernel", required: "denied, also to root", codex: "written, as root", escaped: true, tries: []try{
		{do: `f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo "$v" > $f`, says: readOnly, outside: depends},
		{do: `f=/proc/sys/kernel/hostname; v=$(cat $f) && echo "$v" > $f`, says: readOnly, outside: depends},
		{do: `echo h > /proc/sysrq-trigger`, outside: untried},
		{do: `find /proc/sys -type f -writable | head -3 | grep .`, outside: depends},
	}},
	{id: "F20", attempt: "programs that run as root: setuid, `su`, `sudo`", required: "no gain", codex: "fails, no new privileges", tries: []try{
		{do: `[ -n "$SUID" ] && [ "$("$SUID" -u)" = 0 ]`, outside: depends},
		{do: `grep -q 'NoNewPrivs:.0' /proc/self/status`},
		{do: `grep 'CapEff' /proc/self/status | grep -v 'CapEff:.0*$'`, outside: asRoot},
	}},
	{id: "F21", attempt: "read the engine's own folder: keys, rules, threads", required: "denied", codex: "allowed", escaped: true, tries: []try{
		{do: `cat "$ENGINE/secrets/key"`, says: noFile},
		{do: `cat "$ENGINE/gantry.hcl"`, says: noFile},
		{do: `cat "$ENGINE/secrets/key"`, says: noFile, box: "read-only"},
		{do: `cat "$ENGINE/secrets/key"`, says: noFile, box: "network"},
	}},
	{id: "F22", attempt: "read `/etc/shadow`, `~/.ssh`, other keys of the user", required: "credentials are not seen", codex: "allowed", escaped: true, tries: []try{
		{do: `cat "$HOME/.ssh/id"`, says: noAccess},
		{do: `grep SECRET "$HOME/.netrc"`},
		{do: `grep root: /etc/shadow`, outside: asRoot},
		{do: `grep root: /etc/gshadow`, outside: depends},
	}},
	{id: "F23", attempt: "leave a program that gives its owner's rights to whoever starts it (setuid)", required: "denied", codex: "", tries: []try{
		{do: `cp /bin/true rights && chmod 4755 rights`, says: refused},
		{do: `cp /bin/true rights2 && chmod 4755 rights2`, says: refused, box: "network"},
		{do: `python3 -c 'import os; os.open("rights3", os.O_CREAT|os.O_WRONLY, 0o4755)'`, works: true},
	}, flow: func(t *testing.T, w *world) {
		for _, name := range []string{"rights", "rights2", "rights3"} {
			if info, err := os.Stat(filepath.Join(w.ws, name)); err != nil || info.Mode()&os.ModeSetuid != 0 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}, tests: []string{"host/internal/launch/box TestSetuidBitIsRemoved"}},
	{id: "F24", attempt: "change the mode of the machine's devices, or of the kernel's files in `/proc`, for everybody", required: "denied, also to root", codex: "", tries: []try{
		{do: `chmod 666 /dev/null`, outside: asRoot},
		{do: `test "$(id -u)" = 0 && touch -c /dev/full /dev/tty /dev/urandom`, outside: asRoot}, // others may, since they may write them
		{do: `chmod 666 /dev/full || chmod 666 /dev/tty || chmod 666 /dev/urandom`, outside: asRoot},
		{do: `chmod 444 /proc/meminfo`, outside: asRoot},
		{do: `chmod 444 /proc/meminfo || chmod 666 /dev/zero`, box: "read-only", outside: asRoot},
		{do: `chmod 444 /proc/meminfo || chmod 666 /dev/zero`, box: "network", outside: asRoot},
	}},
	{id: "F25", attempt: "replace a folder of `/tmp` that leads to the workspace, to gantry's home or to another mount with a symbolic link to the machine's files, so that the next sandbox creates folders or files there", required: "denied", codex: "",
		ours: "the folder is a read-only mount: EBUSY; links that were there before are removed", flow: leadElsewhere, tests: []string{"host/internal/launch/box TestMountsFollowNoLinks"}},
}

// leadElsewhere works in the machine's /tmp, where mounts lie in folders of the thread's own.
func leadElsewhere(t *testing.T, w *world) {
	f := newFlow(t, w, "lead-elsewhere", "workspace-write", "never")
	top, err := os.MkdirTemp("/tmp", "gantry-attacks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	f.Dir = filepath.Join(top, "a", "ws")
	mkdir(t, f.Dir)
	before := f.world.snapshot(t)
	f.call("first", `for p in `+top+`/a `+top+`; do mv $p /tmp/aside; ln -s /oldroot`+f.world.out+` $p; done; echo tried`)
	f.call("second", `echo x > file && echo runs`)
	said := f.run(t)
	if !strings.Contains(said["first"], busy) || !strings.Contains(said["second"], "runs") || !exists(filepath.Join(f.Dir, "file")) {
		t.Errorf("%q", said)
	}
	if after := f.world.snapshot(t); after != before {
		t.Errorf("what lies outside of the sandbox has changed:\n%s\nwas:\n%s", after, before)
	}
}
