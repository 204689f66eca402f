package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Disk keeps snapshots in files, for other processes. The zero value keeps none.
type Disk struct{ Dir string }

const (
	// maxDiskAge is how long a file is used. A profile can read files that are not among those that the fingerprint covers.
	maxDiskAge = 24 * time.Hour
	// filePrefix marks complete files of the current format.
	filePrefix = "snapshot 1\n"
)

// fingerprint is a script that prints what the effect of a profile depends on: the variables that select files, and checksums of the
// files that login shells read, with those of other users' homes if ZDOTDIR names one. It needs no profile itself.
const fingerprint = `printf '%s\n' "$HOME" "$USER" "$PATH" "$ZDOTDIR" "$BASH_ENV"
z=${ZDOTDIR:-$HOME}
cksum ~/.profile ~/.bash_profile ~/.bash_login ~/.bashrc ~/.bash_aliases "$z"/.zshenv "$z"/.zprofile "$z"/.zshrc "$z"/.zlogin "$z"/.zsh_aliases \
	/etc/profile /etc/profile.d/* /etc/bash.bashrc /etc/bashrc /etc/environment /etc/zshenv /etc/zprofile /etc/zshrc /etc/zlogin /etc/zsh/* 2>/dev/null
:`

// Take returns the snapshot of a shell from the disk, or takes it with [Take] and stores it. variant distinguishes the permissions of the
// shell. A snapshot that can't be stored is used all the same.
func (d Disk) Take(ctx context.Context, shell, variant string, run Run) (*State, error) {
	dialect := dialectOf(shell)
	if d.Dir == "" || dialect == nil {
		return Take(ctx, shell, run)
	}
	asked, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	print, err := run(asked, []string{"/bin/sh", "-c", fingerprint}, nil)
	if err != nil {
		return nil, fmt.Errorf("look at the profile: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{shell, variant, string(print)}, "\x00")))
	path := filepath.Join(d.Dir, hex.EncodeToString(sum[:]))
	if script, ok := read(path); ok {
		return newState(shell, dialect, script)
	}
	s, err := Take(ctx, shell, run)
	if err == nil {
		_ = d.write(path, s.script) // the next process takes it again
	}
	return s, err
}

func read(path string) (script string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > maxDiskAge {
		return "", false
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(b), filePrefix)
}

// write replaces a file, and removes old ones.
func (d Disk) write(path, script string) error {
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > maxDiskAge {
			_ = os.Remove(filepath.Join(d.Dir, e.Name()))
		}
	}
	f, err := os.CreateTemp(d.Dir, ".new-*") // only its owner can read it
	if err != nil {
		return err
	}
	_, err = f.WriteString(filePrefix + script)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
