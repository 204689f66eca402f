package secret

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/zalando/go-keyring"
)

const (
	keyringService = "gantry"
	// keyringTimeout limits the wait for a keyring. A locked keyring asks a person to unlock it and may never respond.
	keyringTimeout = 10 * time.Second
)

// System returns the keyring of the operating system, or nil if none is reachable. Each home has an entry of its own.
func System(home string, env func(string) string) Keyring {
	if env("GANTRY_KEYRING") == "off" {
		return nil
	}
	// Without a session bus, the library would start one.
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && env("DBUS_SESSION_BUS_ADDRESS") == "" {
		if dir := env("XDG_RUNTIME_DIR"); dir == "" || !exists(filepath.Join(dir, "bus")) {
			return nil
		}
	}
	return system{account: home}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

type system struct{ account string }

var errNoResponse = errors.New("the keyring does not respond")

func (s system) Get() (string, error) {
	value, err := bounded(func() (string, error) { return keyring.Get(keyringService, s.account) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", ErrNotFound
	}
	return value, err
}

func (s system) Put(value string) error {
	_, err := bounded(func() (string, error) { return "", keyring.Set(keyringService, s.account, value) })
	return err
}

func (s system) Delete() error {
	_, err := bounded(func() (string, error) { return "", keyring.Delete(keyringService, s.account) })
	return err
}

// bounded gives up on a keyring that does not respond. The library offers no way to cancel the call.
func bounded(f func() (string, error)) (string, error) {
	type answer struct {
		value string
		err   error
	}
	done := make(chan answer, 1)
	// Owner: the keyring's library, until the process ends; the channel takes its answer whenever it comes.
	go func() {
		value, err := f()
		done <- answer{value, err}
	}()
	late := time.NewTimer(keyringTimeout)
	defer late.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-late.C:
		return "", errNoResponse
	}
}
