package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/host/internal/cli/console"
)

func TestReadPrompt(t *testing.T) {
	pipe := func(content string) *os.File {
		path := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tc := range []struct {
		name  string
		args  []string
		stdin *os.File
		want  string
		err   string
	}{
		{"argument", []string{"go"}, null, "go", ""},
		{"argument and pipe", []string{"go"}, pipe("ctx\n"), "go\n\n<stdin>\nctx\n</stdin>", ""},
		{"argument and empty pipe", []string{"go"}, pipe(""), "go", ""},
		{"pipe", nil, pipe("task"), "task", ""},
		{"dash", []string{"-"}, pipe("task"), "task", ""},
		{"empty pipe", nil, pipe(" \n"), "", "the task is empty"},
		{"nothing", nil, null, "", "no task"},
		{"closed standard input", []string{"-"}, nil, "", "no task"},
		{"empty argument", []string{""}, pipe("task"), "", "the task is empty"},
		{"white space", []string{" \t\n\u00a0"}, null, "", "the task is empty"},
		{"argument that is not UTF-8", []string{"caf\xe9"}, null, "", "the task is not UTF-8: invalid byte at offset 3"},
		{"byte order mark", nil, pipe("\xef\xbb\xbfhi"), "hi", ""},
		{"UTF-16 little", nil, pipe("\xff\xfeh\x00i\x00"), "hi", ""},
		{"UTF-16 big", nil, pipe("\xfe\xff\x00h\x00i"), "hi", ""},
		{"UTF-16, odd", nil, pipe("\xff\xfeh\x00i"), "", "odd number"},
		{"UTF-32", nil, pipe("\xff\xfe\x00\x00h\x00\x00\x00"), "", "UTF-32"},
		{"not UTF-8", nil, pipe("ab\xffc"), "", "offset 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := readPrompt(tc.args, tc.stdin)
			if tc.err != "" {
				u, ok := errors.AsType[console.UsageError](err)
				if !ok || !strings.Contains(u.Text, tc.err) || u.Next == "" {
					t.Errorf("error = %+v, want a usage error with %q and a next step", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("prompt = %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
