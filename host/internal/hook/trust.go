package hook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/reach"
)

// TrustState says whether a hook may run.
type TrustState int

// The standings.
const (
	TrustUnknown TrustState = iota
	TrustManaged            // it needs nobody's consent
	Trusted
	Modified  // it is not any more what the user agreed to
	Untrusted // nobody has agreed to it
	Exposed   // it is what the user agreed to, and a command that runs could change it until it starts
)

var trustNames = [...]string{"unknown", "managed", "trusted", "modified", "untrusted", "exposed"}

// String names the standing for people.
func (s TrustState) String() string {
	if s < 0 || int(s) >= len(trustNames) {
		return trustNames[0]
	}
	return trustNames[s]
}

// runs tells whether a hook of that standing runs.
func (s TrustState) runs() bool { return s == TrustManaged || s == Trusted }

// Trust compares what a hook is now with what the user agreed to. agreed holds digests by key. A hook of which something can't be
// followed is not what was agreed to: consent would not cover it.
func (d *Definition) Trust(agreed map[string]string, dir string, env []string) TrustState {
	if d.Scope == Managed {
		return TrustManaged
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

// Reach finds the files that the hook's command can run. dir is where it runs, env what it is started with.
func (d *Definition) Reach(dir string, env []string) reach.Set {
	q := reach.Query{
		Dir: dir, Env: withProject(env, dir), Roots: append([]string{dir}, d.Roots...), Listed: d.Files, Complete: d.Files != nil,
	}
	if d.Command == "" {
		return q.Names()
	}
	return q.Line(d.Command)
}

// GapError says that consent to a hook would not cover all that its command runs.
type GapError struct {
	Hook string
	Gap  reach.Gap
}

func (e *GapError) Error() string {
	return hint.Line(fmt.Sprintf("hook %s: %s", e.Hook, e.Gap), e.Gap.Next)
}

// NextStep implements [hint.Stepper].
func (e *GapError) NextStep() string { return e.Gap.Next }

// Digest binds consent to what a hook does: when it runs, its command, and the content of the files that the command reaches, which
// are returned. A command that can't be followed to its end is a [GapError].
func (d *Definition) Digest(dir string, env []string) (digest string, set reach.Set, err error) {
	own, err := json.Marshal(struct {
		Event         Event    `json:"event"`
		Matcher       string   `json:"matcher"`
		Command       string   `json:"command"`
		Timeout       int64    `json:"timeout"`
		Async         bool     `json:"async"`
		Blocks        bool     `json:"blocks"`
		ContextTokens *int64   `json:"contextTokens"`
		Prompt        string   `json:"prompt,omitempty"`
		Looks         bool     `json:"looks,omitempty"`
		Model         string   `json:"model,omitempty"`
		Listed        bool     `json:"listed,omitempty"`
		Files         []string `json:"files,omitempty"`
	}{
		d.Event, d.Matcher, d.Command, int64(d.timeout()), d.Async, d.blocks(), d.ContextTokens, d.Prompt, d.Looks, d.Model, d.Files != nil, d.Files,
	})
	if err != nil {
		return "", set, err
	}
	set = d.Reach(dir, env)
	if len(set.Gaps) > 0 {
		return "", set, &GapError{Hook: d.Key, Gap: set.Gaps[0]}
	}
	h := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(own)))
	h.Write(length[:])
	h.Write(own)
	if err := set.Write(h); err != nil {
		return "", set, fmt.Errorf("hook %s runs %w", d.Key, err)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(h.Sum(nil)), set, nil
}

// withProject adds the variables by which hooks of other programs find their project.
func withProject(env []string, dir string) []string {
	return append(slices.Clone(env), "GANTRY_PROJECT_DIR="+dir, "CLAUDE_PROJECT_DIR="+dir, "PWD="+dir)
}
