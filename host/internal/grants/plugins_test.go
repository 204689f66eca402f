package grants

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/store"
	"github.com/gantry-agent/gantry/host/internal/store/pluginstate"
)

// Where HOME says nothing, the account's own folder is the one with keys.
func TestUserHome(t *testing.T) {
	t.Parallel()
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		environ []string
		want    string
	}{
		{"named", []string{"HOME=/a", "HOME=/b"}, "/b"},
		{"not set", []string{"PATH=/bin"}, account.HomeDir},
		{"empty", []string{"HOME="}, account.HomeDir},
		{"not absolute", []string{"HOME=here"}, account.HomeDir},
	} {
		if got := UserHome(tc.environ); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Plugins see what users put into gantry's home, and nothing that gantry keeps there: other plugins' state, for example.
func TestUsersFilesInTheHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	state, err := pluginstate.Open(t.Context(), store.Database{}.Config(filepath.Join(home, "state.db")), filepath.Join(home, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	if _, _, err := state.Put(t.Context(), pluginstate.Scope{Plugin: "p"}, "k", []byte("v"), nil); err != nil {
		t.Fatal(err)
	}
	lease, err := state.Acquire(t.Context(), "p", "l", "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release(t.Context())
	own := filepath.Join(home, "certificate.pem")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := userFiles(home); len(got) != 1 || got[0] != own {
		t.Errorf("plugins see %q", got)
	}
}
