package patch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFileBytes is the maximum size of a file that can be updated, because its content is sent between processes. A larger file can be
// deleted or overwritten; only its digest is known then.
const maxFileBytes = 16 << 20

// Refusal is an error whose text is intended for the model, for example because a patch can't be applied.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Errors for well-formed patches that are rejected.
var (
	ErrEmpty       error = Refusal("patch rejected: empty patch")
	ErrEnvironment error = Refusal("apply_patch environment selection is unavailable for this turn")
)

// Explain returns the text for the model after Parse or Verify has failed.
func Explain(err error) string {
	if errors.Is(err, ErrEmpty) || errors.Is(err, ErrEnvironment) {
		return err.Error()
	}
	return "apply_patch verification failed: " + err.Error()
}

// Plan contains the changes of a patch to the files as they were during Verify.
type Plan struct {
	Changes []Change `json:"changes"`
}

// Change is the change of one file.
type Change struct {
	Kind        Kind   `json:"kind"`
	Spelled     string `json:"spelled"` // the path in the patch, or for a move the destination
	Path        string `json:"path"`    // absolute
	MoveTo      string `json:"moveTo,omitempty"`
	Before      State  `json:"before"`                // state of Path
	Destination *State `json:"destination,omitempty"` // state of MoveTo before the change
	After       []byte `json:"after,omitempty"`

	diff *string // cached result of Diff
}

// State is the state of a path before a change.
type State struct {
	Presence Presence `json:"presence"`
	SHA256   string   `json:"sha256,omitempty"` // lower-case hex
	Size     int64    `json:"size,omitempty"`
	Data     []byte   `json:"data,omitempty"` // absent for large files
}

// Presence says whether a file exists.
type Presence int

// The values of Presence. PresenceUnknown means that the path could not be read as a file; it is not compared again before writing.
const (
	PresenceUnknown Presence = iota
	PresenceAbsent
	PresenceFile
)

// Target returns the path of the new content.
func (c *Change) Target() string {
	if c.MoveTo != "" {
		return c.MoveTo
	}
	return c.Path
}

// Paths returns every absolute path that the plan writes or removes.
func (p *Plan) Paths() []string {
	var out []string
	for i := range p.Changes {
		out = append(out, p.Changes[i].Path)
		if to := p.Changes[i].MoveTo; to != "" {
			out = append(out, to)
		}
	}
	return out
}

// Slim returns the plan without the old content, which Apply doesn't need.
func (p *Plan) Slim() *Plan {
	slim := &Plan{Changes: make([]Change, len(p.Changes))}
	for i, c := range p.Changes {
		c.Before.Data = nil
		if c.Destination != nil {
			d := *c.Destination
			d.Data = nil
			c.Destination = &d
		}
		slim.Changes[i] = c
	}
	return slim
}

// Digest returns a digest of the paths, the old content and the new content.
func (p *Plan) Digest() string {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(p.Slim()); err != nil {
		panic("patch: encode plan: " + err.Error()) // impossible for strings, numbers and bytes
	}
	return "p1:" + hex.EncodeToString(h.Sum(nil))
}

// Verify returns the plan of a patch, without writing anything. Relative paths are resolved against cwd, which is absolute. Use [Explain]
// to convert an error to text.
func Verify(cwd string, p *Patch) (*Plan, error) {
	if p.HasEnvironment {
		return nil, ErrEnvironment
	}
	if len(p.Hunks) == 0 {
		return nil, ErrEmpty
	}
	plan := &Plan{}
	for i := range p.Hunks {
		h := &p.Hunks[i]
		c := Change{Kind: h.Kind, Spelled: h.Path, Path: resolve(cwd, h.Path)}
		// A move to the same path is an update; as a move, it would remove the new content.
		if to := resolve(cwd, h.MoveTo); h.MoveTo != "" && to != c.Path {
			c.MoveTo, c.Spelled = to, h.MoveTo
		}
		plan.Changes = append(plan.Changes, c)
	}
	if err := plan.checkTargets(); err != nil {
		return nil, err
	}
	for i := range plan.Changes {
		if err := plan.Changes[i].verify(&p.Hunks[i]); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

func resolve(cwd, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(cwd, path)
}

// checkTargets rejects a patch with several hunks for the same file, because the new content of each is derived from the present content.
// Deleting a file and moving another one to its path is allowed.
func (p *Plan) checkTargets() error {
	seen := map[string]bool{}
	var infos []fs.FileInfo
	for i := range p.Changes {
		path := p.Changes[i].Path
		if seen[path] {
			return refuse("invalid patch: multiple operations target %s", path)
		}
		seen[path] = true
		stat := os.Stat
		if p.Changes[i].Kind == KindDelete {
			stat = os.Lstat // a deletion removes the link, not its target
		}
		info, err := stat(path)
		if err != nil {
			continue
		}
		for _, other := range infos {
			if os.SameFile(info, other) { // links, or names that differ only in case
				return refuse("invalid patch: multiple operations target %s", path)
			}
		}
		infos = append(infos, info)
	}
	deleted := map[string]bool{}
	moved := map[string]bool{}
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Kind == KindDelete {
			deleted[c.Path] = true
		}
		if c.MoveTo == "" {
			continue
		}
		if moved[c.MoveTo] || (seen[c.MoveTo] && !deleted[c.MoveTo]) {
			return refuse("invalid patch: multiple operations target %s", c.MoveTo)
		}
		moved[c.MoveTo] = true
	}
	return nil
}

func (c *Change) verify(h *Hunk) error {
	before, err := read(c.Path)
	switch c.Kind {
	case KindAdd:
		// An existing file is overwritten. Its content is recorded if it can be read.
		c.Before, c.After = before, []byte(h.Content)
	case KindDelete:
		if err != nil {
			return refuse("Failed to read %s: %s", c.Path, OSText(err))
		}
		c.Before = before
	case KindUpdate:
		if err != nil {
			return refuse("Failed to read file to update %s: %s", c.Path, OSText(err))
		}
		if !before.Whole() {
			return refuse("Failed to read file to update %s: the file is larger than %d bytes", c.Path, maxFileBytes)
		}
		after, err := update(c.Path, string(before.Data), h.Chunks)
		if err != nil {
			return err
		}
		c.Before, c.After = before, []byte(after)
		if c.MoveTo != "" {
			there, _ := read(c.MoveTo) // may exist, and is overwritten
			c.Destination = &there
		}
	}
	return nil
}

// read returns the state of a path. Only regular files are read, because a pipe or device could block forever.
func read(path string) (State, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Presence: PresenceAbsent}, err
	}
	if err != nil {
		return State{}, err
	}
	if !info.Mode().IsRegular() {
		return State{}, Refusal(fmt.Sprintf("path `%s` is not a file", path))
	}
	f, err := os.Open(path)
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	var data bytes.Buffer
	h := sha256.New()
	size, err := io.Copy(io.MultiWriter(h, &data), io.LimitReader(f, maxFileBytes))
	if err == nil {
		var more int64
		more, err = io.Copy(h, f)
		if size += more; more > 0 {
			data = bytes.Buffer{}
		}
	}
	if err != nil {
		return State{}, err
	}
	return State{Presence: PresenceFile, SHA256: hex.EncodeToString(h.Sum(nil)), Size: size, Data: data.Bytes()}, nil
}

func stateOf(data []byte) State {
	sum := sha256.Sum256(data)
	return State{Presence: PresenceFile, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data)), Data: data}
}

// AfterSHA256 returns the digest of the new content.
func (c *Change) AfterSHA256() string { return stateOf(c.After).SHA256 }

// Whole reports whether s is a file whose content is in Data.
func (s State) Whole() bool { return s.Presence == PresenceFile && s.Size == int64(len(s.Data)) }
