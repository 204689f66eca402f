//go:build unix

package profile_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-agent/gantry/plugins/browser/internal/profile"
)

const holdEnv = "GANTRY_TEST_HOLD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(holdEnv); folder != "" {
		err := profile.Hold(folder)
		if err == nil {
			err = unix.Exec("/bin/sh", []string{"sh", "-c", "echo held; read line"}, nil)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func swept(t *testing.T, dir, folder string) bool {
	t.Helper()
	if err := profile.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(folder)
	return errors.Is(err, os.ErrNotExist)
}

// A folder stays as long as who made it, or the program that its user has become.
func TestFolderStaysWhileItIsUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	if err := profile.Sweep(dir); err != nil {
		t.Error(err)
	}
	folder, release, err := profile.Make(dir, "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if swept(t, dir, folder) {
		t.Fatal("a new folder is removed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{holdEnv + "=" + folder}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatal(line, err)
	}
	release()
	if swept(t, dir, folder) {
		t.Error("the folder of a program that runs is removed")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := profile.Remove(ended, folder); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := errors.Join(in.Close(), cmd.Process.Kill()); err != nil {
		t.Error(err)
	}
	if err := profile.Remove(t.Context(), folder); err != nil { // which waits for its end
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder of a program that has ended is left")
	}
	_ = cmd.Wait() // it was killed
}
