package hook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// Standing says whether a hook may run.
type Standing int

// The standings.
const (
	StandingUnknown Standing = iota
	StandingManaged          // it needs nobody's consent
	Trusted
	Modified  // it is not any more what the user agreed to
	Untrusted // nobody has agreed to it
)

var standingNames = [...]string{"unknown", "managed", "trusted", "modified", "untrusted"}

// String names the standing for people.
func (s Standing) String() string {
	if s < 0 || int(s) >= len(standingNames) {
		return standingNames[0]
	}
	return standingNames[s]
}

// runs tells whether a hook of that standing runs.
func (s Standing) runs() bool { return s == StandingManaged || s == Trusted }

// Stand compares what a hook is now with what the user agreed to. agreed holds digests by key.
func (d *Definition) Stand(agreed map[string]string, dir string, env []string) Standing {
	if d.Scope == Managed {
		return StandingManaged
	}
	was, ok := agreed[d.Key]
	if !ok {
		return Untrusted
	}
	if is, _, err := d.Digest(dir, env); err != nil || is != was {
		return Modified
	}
	return Trusted
}

// maxScript bounds a file that a hook runs: more is no script.
const maxScript = 64 << 20

// Digest binds consent to what a hook does: when it runs, its command, and the content of the files that the command runs, which
// are returned. dir is where it runs, env what it is started with.
func (d *Definition) Digest(dir string, env []string) (digest string, files []string, err error) {
	own, err := json.Marshal(struct {
		Event         Event  `json:"event"`
		Matcher       string `json:"matcher"`
		Command       string `json:"command"`
		Timeout       int64  `json:"timeout"`
		Async         bool   `json:"async"`
		Blocks        bool   `json:"blocks"`
		ContextTokens *int64 `json:"contextTokens"`
		Prompt        string `json:"prompt,omitempty"`
		Looks         bool   `json:"looks,omitempty"`
		Model         string `json:"model,omitempty"`
	}{d.Event, d.Matcher, d.Command, int64(d.timeout()), d.Async, d.blocks(), d.ContextTokens, d.Prompt, d.Looks, d.Model})
	if err != nil {
		return "", nil, err
	}
	h := sha256.New()
	put := func(b []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(b)))
		h.Write(length[:])
		h.Write(b)
	}
	put(own)
	for _, s := range scripts(d.Command, dir, withProject(env, dir), lookAt) {
		sum, err := contentOf(s.path)
		if err != nil {
			return "", nil, fmt.Errorf("hook %s runs %s: %w", d.Key, s.path, err)
		}
		put([]byte(s.word))
		put(sum)
		files = append(files, s.path)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(h.Sum(nil)), slices.Compact(files), nil
}

// lookAt tells what lies at a path.
func lookAt(path string) (regular, executable bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return false, false
	}
	return true, st.Mode()&0o111 != 0
}

var errLarge = errors.New("it is larger than 64 MiB, which is no script")

func contentOf(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // by now it may be a pipe that nobody writes to
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxScript+1))
	if err == nil && n > maxScript {
		err = errLarge
	}
	return h.Sum(nil), err
}

// withProject adds the variables by which hooks of other programs find their project.
func withProject(env []string, dir string) []string {
	return append(slices.Clone(env), "GANTRY_PROJECT_DIR="+dir, "CLAUDE_PROJECT_DIR="+dir, "PWD="+dir)
}
