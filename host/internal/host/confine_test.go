package host

import (
	"os/user"
	"testing"
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
