//go:build linux

package box_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/host/internal/launch/box"
)

// attempt is one try to get out of a box, or to do what must work in it.
type attempt struct {
	name string
	// do is a script. It runs in the workspace; $OUT lies outside of it, and $WS/link points there.
	do string
	// says is in its output: an errno's text, or what it prints itself.
	says string
}

// files are attempts on what must not be written. Each has to fail, and to leave everything outside as it was.
var files = []attempt{
	{"a folder outside", `echo x > $OUT/x`, "Read-only file system"},
	{"the home", `echo x > $OUT/../userhome/x`, "Read-only file system"},
	{"/etc", `echo x > /etc/x`, "Read-only file system"},
	{"/run", `echo x > /run/x`, "Read-only file system"},
	{"/var/tmp", `echo x > /var/tmp/x`, "Read-only file system"},
	{"the mode of a file outside", `chmod 777 $OUT/file`, "Read-only file system"},
	{"the times of a file outside", `touch $OUT/file`, "Read-only file system"},
	{"a roundabout spelling", `mkdir -p a; echo x > a/../.git//hooks/./x`, "Read-only file system"},
	{"a link that was there", `echo x > link/x`, "Read-only file system"},
	{"a link that is made", `ln -s /etc made; echo x > made/x`, "Read-only file system"},
	{"a hard link to a file outside", `ln $OUT/file hard && echo x > hard`, "Invalid cross-device link"},
	{"a hard link to a protected file", `ln .git/config hard && echo x > hard`, "Invalid cross-device link"},
	{"the workspace's name", `mv $WS $WS.moved`, "Read-only file system"},
	{"the root of another view", `echo x > /proc/self/root$OUT/x`, "Read-only file system"},
	{"the root of the box's first process", `echo x > /proc/1/root$OUT/x`, ""},
	{"a disk", `cat /dev/vda`, "No such file or directory"},
	{"the kernel's log", `cat /dev/kmsg`, "No such file or directory"},
	{"a device of its own", `mknod disk b 254 0`, "Operation not permitted"},
	{"a control group", `mkdir /sys/fs/cgroup/mine`, "Read-only file system"},
	{"sysfs", `echo 1 > /sys/kernel/mm/ksm/run`, "Read-only file system"},
	{"core_pattern", `echo x > /proc/sys/kernel/core_pattern`, "Read-only file system"},
	{"the host's name", `echo x > /proc/sys/kernel/hostname`, "Read-only file system"},
	{"a hook", `echo x > .git/hooks/pre-commit`, "Read-only file system"},
	{"git's settings", `echo x >> .git/config`, "Read-only file system"},
	{"removing .git", `rm -rf .git`, "Read-only file system"},
	{"moving .git", `mv .git moved`, "Device or resource busy"},
	{"another folder in .git's place", `mkdir other; mv -T other .git`, "busy"},
	{"making .agents", `mkdir .agents`, "File exists"},
	{"writing into .agents", `echo x > .agents/x`, "Read-only file system"},
	{"removing what stands in for .agents", `rmdir .agents`, "busy"},
	{"a link in place of .codex", `ln -sfn $OUT .codex`, "Read-only file system"},
	{"what may be run", `echo x > .gantry/gantry.hcl`, "Read-only file system"},
}

// reads are attempts on what must not be read.
var reads = []attempt{
	{"gantry's keys", `cat $GANTRY/secrets/key`, "No such file or directory"},
	{"gantry's threads", `ls $GANTRY/threads.db`, "No such file or directory"},
	{"the user's keys", `cat $OUT/../userhome/.ssh/id`, "Permission denied"},
	{"listing the user's keys", `ls $OUT/../userhome/.ssh`, "Permission denied"},
	{"opening them up", `chmod 755 $OUT/../userhome/.ssh`, "Read-only file system"},
	{"a file with a password", `test ! -s $OUT/../userhome/.netrc && echo empty`, "empty"},
	{"the machine's /tmp", `cat $HOSTTMP`, "No such file or directory"},
	{"what the launcher was told", `tr '\0' '\n' < /proc/1/cmdline | grep -c bind`, "0"},
	{"what the launcher has in its environment", `tr '\0' '\n' < /proc/1/environ | grep -c SECRET`, "0"},
	{"keyrings", `cat /proc/keys`, "Permission denied"},
	{"other processes", `test $(ls /proc | grep -c '^[0-9]') -le 8 && echo few`, "few"}, // its own and bubblewrap
	{"descriptors that leaked", `ls /proc/self/fd | tr '\n' ' '`, "0 1 2 3"},
}

// works are things that programs need.
var works = []attempt{
	{"the workspace", `echo x > new && mkdir d && mv new d/ && rm -r d && echo done`, "done"},
	{"/tmp", `f=$(mktemp) && echo x > $f && rm $f && echo done`, "done"},
	{"TMPDIR", `echo $TMPDIR`, "/tmp"},
	{"/dev", `echo x > /dev/null && head -c 4 /dev/zero | wc -c`, "4"},
	{"shared memory of its own", `echo x > /dev/shm/x && cat /dev/shm/x`, "x"},
	{"a child and a pipe", `(echo a; echo b) | sort -r | head -1`, "b"},
	{"a socket pair", `python3 -c 'import socket; a, b = socket.socketpair(); a.send(b"x"); print(b.recv(1), b.getsockopt(1, 3)); a.shutdown(1)'`, "b'x' 1"},
	{"an event loop", `python3 -c 'import asyncio; asyncio.run(asyncio.sleep(0)); print("done")'`, "done"},
	{"reading the repository", `cat .git/config`, "[core]"},
	{"a program", `git --version`, "git version"},
	{"signals to own children", `sleep 1000 & kill $! && wait $!; echo $?`, "143"},
	{"to know that it is in a box", `echo $GANTRY_SANDBOX $GANTRY_SANDBOX_NETWORK_DISABLED`, "workspace-write 1"},
}

// network are attempts to reach something.
var network = []attempt{
	{"TCP", `python3 -c 'import socket; socket.create_connection(("127.0.0.1", 1))'`, "Operation not permitted"},
	{"UDP", `python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'`, "Operation not permitted"},
	{"netlink", `python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'`, "Operation not permitted"},
	{"packets", `python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'`, "Operation not permitted"},
	{"the hypervisor", `python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'`, "Operation not permitted"},
	{"the kernel's ciphers", `python3 -c 'import socket; socket.socket(38, 5)'`, "Operation not permitted"},
	{"the shell's own way", `bash -c 'echo > /dev/tcp/127.0.0.1/1'`, "Operation not permitted"},
	{"a name", `getent hosts example.com || echo none`, "none"},
	{"a service's socket", `python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ["OUT"] + "/service")'`, "Operation not permitted"},
	{"a service that takes datagrams", `python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)'`, "Operation not permitted"},
	{"the same by a pair", `python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'`, "Operation not permitted"},
}

// kernel are system calls that no process in a box gets, by the name that the helper knows them by.
var kernel = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "io_uring_setup", "keyctl", "add_key", "bpf", "userfaultfd",
	"perf_event_open", "mount", "umount", "chroot", "open_tree", "fsopen", "setns", "init_module", "kexec_load", "personality", "tiocsti",
}

// calls are the raw system calls behind the names.
var calls = map[string][4]uintptr{
	"ptrace": {unix.SYS_PTRACE}, "process_vm_readv": {unix.SYS_PROCESS_VM_READV}, "process_vm_writev": {unix.SYS_PROCESS_VM_WRITEV},
	"io_uring_setup": {unix.SYS_IO_URING_SETUP, 1}, "keyctl": {unix.SYS_KEYCTL, 0, ^uintptr(2)}, "add_key": {unix.SYS_ADD_KEY},
	"bpf": {unix.SYS_BPF}, "userfaultfd": {unix.SYS_USERFAULTFD}, "perf_event_open": {unix.SYS_PERF_EVENT_OPEN},
	"mount": {unix.SYS_MOUNT}, "umount": {unix.SYS_UMOUNT2}, "chroot": {unix.SYS_CHROOT}, "open_tree": {unix.SYS_OPEN_TREE},
	"fsopen": {unix.SYS_FSOPEN}, "setns": {unix.SYS_SETNS}, "init_module": {unix.SYS_INIT_MODULE}, "kexec_load": {unix.SYS_KEXEC_LOAD},
	"personality": {unix.SYS_PERSONALITY, 0x0008}, "tiocsti": {unix.SYS_IOCTL, 0, unix.TIOCSTI},
}

// helpCall makes a system call in a box and prints its errno.
func helpCall(name string) {
	if name == "unshare" {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS)
		fmt.Println("unshare:", err)
		fmt.Println("mount:", unix.Mount("tmpfs", os.Getenv("WS")+"/.git", "tmpfs", 0, ""))
		return
	}
	c := calls[name]
	a := append([]byte(os.Getenv("OUT")), 0)
	if name == "chroot" {
		c[1] = uintptr(unsafe.Pointer(&a[0]))
	}
	_, _, errno := syscall.Syscall(c[0], c[1], c[2], c[3])
	fmt.Println(errno == unix.EPERM, errno)
}

// prepared is a world with something to attack.
func prepared(t *testing.T) *world {
	w := newWorld(t)
	for path, text := range map[string]string{
		"ws/.git/config": "[core]\n", "ws/.git/hooks/sample": "", "ws/file": "", "out/file": "as it was", "home/secrets/key": "SECRET",
		"home/threads.db": "SECRET", "userhome/.ssh/id": "SECRET", "userhome/.netrc": "SECRET",
	} {
		p := filepath.Join(filepath.Dir(w.ws), path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.out, filepath.Join(w.ws, "link")); err != nil {
		t.Fatal(err)
	}
	return w
}

// snapshot is what lies outside, with its content.
func (w *world) snapshot() string {
	w.t.Helper()
	var b strings.Builder
	for _, dir := range []string{"out", "home", "userhome", "ws/.git"} {
		err := filepath.Walk(filepath.Join(filepath.Dir(w.ws), dir), func(p string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			text := ""
			if info.Mode().IsRegular() {
				content, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				text = string(content)
			}
			fmt.Fprintln(&b, p, info.Mode(), info.ModTime().UnixNano(), text)
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return b.String()
}

func TestNothingOutsideIsWritten(t *testing.T) {
	t.Parallel()
	for _, a := range files {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			before := w.snapshot()
			out, exit := w.sh(a.do)
			if exit.Code == 0 || !strings.Contains(out, a.says) {
				t.Errorf("exit %d, %q, want a failure with %q", exit.Code, out, a.says)
			}
			if after := w.snapshot(); after != before {
				t.Errorf("what lies outside has changed:\n%s\nwas:\n%s", after, before)
			}
			for _, name := range box.Protected {
				if _, err := os.Lstat(filepath.Join(w.ws, name)); name != ".git" && err == nil {
					t.Errorf("%s was left behind", name)
				}
			}
		})
	}
}

func TestReadOnlyModeWritesNothing(t *testing.T) {
	t.Parallel()
	for _, do := range []string{`echo x > x`, `echo x > /tmp/x`, `mktemp`, `rm file`} {
		w := prepared(t)
		w.mode = box.ReadOnly
		if out, exit := w.sh(do); exit.Code == 0 || !strings.Contains(out, "Read-only file system") {
			t.Errorf("%s: exit %d, %q", do, exit.Code, out)
		}
	}
}

func TestNothingSecretIsRead(t *testing.T) {
	t.Parallel()
	f, err := os.CreateTemp("/tmp", "gantry-box-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	for _, a := range reads {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			w := prepared(t)
			out, _ := w.sh("HOSTTMP=" + f.Name() + "; GANTRY=" + w.home + "\n" + a.do)
			if !strings.Contains(out, a.says) || strings.Contains(out, "SECRET") {
				t.Errorf("%q, want %q", out, a.says)
			}
		})
	}
}

func TestWhatProgramsNeedWorks(t *testing.T) {
	t.Parallel()
	for _, a := range works {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if out, exit := prepared(t).sh(a.do); exit.Code != 0 || !strings.Contains(out, a.says) {
				t.Errorf("exit %d, %q, want %q", exit.Code, out, a.says)
			}
		})
	}
}

func TestNothingIsReachedWithoutANetwork(t *testing.T) {
	t.Parallel()
	for _, a := range network {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if out, _ := prepared(t).sh(a.do); !strings.Contains(out, a.says) {
				t.Errorf("%q, want %q", out, a.says)
			}
		})
	}
}

func TestSystemCallsThatAreNotForBoxes(t *testing.T) {
	t.Parallel()
	for _, network := range []bool{false, true} {
		for _, name := range kernel {
			t.Run(name+" "+strconv.FormatBool(network), func(t *testing.T) {
				t.Parallel()
				w := prepared(t)
				w.network = network
				if out, _ := w.sh("exec " + selfPath + " " + name); !strings.HasPrefix(out, "true") {
					t.Errorf("%s: %s", name, out)
				}
			})
		}
	}
}

func TestANamespaceOfItsOwnIsOfNoUse(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	if out, _ := w.sh("exec " + selfPath + " unshare"); !strings.Contains(out, "mount: operation not permitted") {
		t.Error(out)
	}
}

func TestInt80EndsTheProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has a second numbering")
	}
	w := prepared(t)
	// mov eax, 20 (getpid of the other numbering); int 0x80
	out, exit := w.sh(`python3 -c '
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
print("survived")'`)
	if exit.Code != 128+int(syscall.SIGSYS) || strings.Contains(out, "survived") {
		t.Errorf("exit %+v, %q", exit, out)
	}
}
