package proctree

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestContainsTCP(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unrelated := exec.Command("sleep", "60")
	if err := unrelated.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unrelated.Process.Kill()
		_ = unrelated.Wait()
	}()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // without IPv6
			continue
		}
		defer ln.Close()
		dial := ln.Addr().String()
		for name, argv := range map[string][]string{"a child": {self, "-test.run=^TestConnects$"}, "a grandchild": {"/bin/sh", "-c", `"$0" -test.run='^TestConnects$'; true`, self}} {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), "GANTRY_TEST_CONNECT=tcp:"+dial)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			for root, want := range map[int]bool{os.Getpid(): true, os.Getppid(): true, cmd.Process.Pid: name == "a grandchild", unrelated.Process.Pid: false, 1 << 22: false} {
				if got, err := ContainsTCP(conn.(*net.TCPConn), root); err != nil || got != want {
					t.Errorf("%s at %s: in the tree of %d: %v, %v, want %v", name, address, root, got, err, want)
				}
			}
			conn.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if got, err := ContainsTCP(conn.(*net.TCPConn), os.Getpid()); err != nil || got {
				t.Errorf("%s that has ended: %v, %v", name, got, err)
			}
		}
	}
}

func TestFindSocket(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1194 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1194 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1194 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0000000000000000 20 4 30 10 -1
   3: 0100007F:C351 0100007F:1194 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0000000000000000
   4: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1194 01 00000000:00000000 00:00000000 00000000     0        0 14 1
   5: 00000000000000000000000001000000:C353 00000000000000000000000001000000:1194 01 00000000:00000000 00:00000000 00000000     0        0 15 1
   6: 0100007F:C354 x:1194 01 a b c d e 16 1
short
`
	for addresses, want := range map[string]string{
		"127.0.0.1:50000 127.0.0.1:4500": "13", "127.0.0.1:4500 127.0.0.1:50000": "12", "127.0.0.1:50001 127.0.0.1:4500": "", "127.0.0.1:50002 127.0.0.1:4500": "14",
		"[::1]:50003 [::1]:4500": "15", "127.0.0.1:50004 127.0.0.1:4500": "", "127.0.0.1:1 127.0.0.1:4500": "", "[::ffff:127.0.0.1]:50000 127.0.0.1:4500": "13",
	} {
		local, remote, _ := strings.Cut(addresses, " ")
		got, err := findSocket(bufio.NewScanner(strings.NewReader(table)), netip.MustParseAddrPort(local), netip.MustParseAddrPort(remote))
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", addresses, got, err, want)
		}
	}
}
