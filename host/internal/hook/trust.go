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

// The states.
const (
	TrustUnknown TrustState = iota
	TrustManaged            // needs no consent
	Trusted
	Modified  // no longer what the user trusted
	Untrusted // never trusted
	Exposed   // agreed, but a running command could change it before it starts
)

var trustNames = [...]string{"unknown", "managed", "trusted", "modified", "untrusted", "exposed"}

// String returns the state's name.
func (s TrustState) String() string {
	if s < 0 || int(s) >= len(trustNames) {
		return trustNames[0]
	}
	return trustNames[s]
}

// runs reports whether a hook in this state runs.
func (s TrustState) runs() bool { return s == TrustManaged || s == Trusted }

// Trust compares a hook with what the user trusted. trusted has digests by key. A hook with parts that can't be followed is not
// trusted: consent would not cover them.
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

// Reach returns the files that the hook's command can run. dir is its working folder, env its environment.
func (d *Definition) Reach(dir string, env []string) reach.Set {
	q := reach.Query{
		Dir: dir, Env: withProject(env, dir), Roots: append([]string{dir}, d.Roots...), Listed: d.Files, Complete: d.Files != nil,
	}
	if d.Command == "" {
		return q.Names()
	}
	return q.Line(d.Command)
}

// GapError says that consent to a hook would not cover everything that its command runs.
type GapError struct {
	Hook string
	Gap  reach.Gap
}

func (e *GapError) Error() string {
	return hint.Line(fmt.Sprintf("hook %s: %s", e.Hook, e.Gap), e.Gap.Next)
}

// NextStep implements [hint.Stepper].
func (e *GapError) NextStep() string { return e.Gap.Next }

// Digest returns a digest of what the user consents to: when the hook runs, its command, and the content of the files that the
// command reaches, which are returned too. The error is an [GapError] if the command can't be followed to its end.
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
		d.Event, d.Matcher, d.Command, int64(d.TimeLimit()), d.Async, d.blocks(), d.ContextTokens, d.Prompt, d.Looks, d.Model, d.Files != nil, d.Files,
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

// withProject adds the variables in which hooks find their project.
func withProject(env []string, dir string) []string {
	return append(slices.Clone(env), "GANTRY_PROJECT_DIR="+dir, "CLAUDE_PROJECT_DIR="+dir, "PWD="+dir)
}
