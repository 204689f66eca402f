package child

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/sdk/codemode/frame"
)

const lockedEnv = "CODEMODE_TEST_LOCKED"

func TestMain(m *testing.M) {
	if os.Getenv(lockedEnv) != "" {
		os.Exit(locked())
	}
	os.Exit(m.Run())
}

// locked locks the process and prints what it can still do.
func locked() int {
	if _, err := lock(&frame.Limits{Memory: 64 << 20, CPUMillis: 1000}); err != nil {
		println("not locked:", err.Error())
		return 1
	}
	code := 0
	check := func(what string, err error) {
		if !errors.Is(err, unix.EPERM) {
			println(what, "is possible:", err == nil)
			code = 1
		}
	}
	_, err := os.Open("/dev/null")
	check("open", err)
	_, err = net.Dial("tcp", "127.0.0.1:1")
	check("a socket", err)
	check("a process", exec.Command("/proc/self/exe").Run())
	check("exec", syscall.Exec("/proc/self/exe", nil, nil))
	check("a signal to the parent", syscall.Kill(os.Getppid(), 0))
	check("a signal to a thread of the parent", unix.Tgkill(os.Getppid(), os.Getppid(), 0))
	_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	check("code in memory", err)
	check("ptrace", unix.PtraceAttach(os.Getppid()))
	done := make(chan bool)
	for range 20 { // threads and waiting still work
		go func() { b := make([]byte, 1<<20); done <- b[0] == 0 }() // ends after its send, which is awaited below
	}
	for range 20 {
		<-done
	}
	return code
}

func TestLock(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockedEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, strings.TrimSpace(string(out)))
	}
}
