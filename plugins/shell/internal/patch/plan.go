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

// maxFileBytes is the largest file that is updated, and whose content is kept: before and after travel between processes.
// A larger one can still be deleted or overwritten; then only its digest is known.
const maxFileBytes = 16 << 20

// Refusal is a patch that can't be applied, in the words that the model reads.
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Patches that are well formed and refused all the same.
var (
	ErrEmpty       error = Refusal("patch rejected: empty patch")
	ErrEnvironment error = Refusal("apply_patch environment selection is unavailable for this turn")
)

// Explain returns what the model reads when Parse or Verify failed.
func Explain(err error) string {
	if errors.Is(err, ErrEmpty) || errors.Is(err, ErrEnvironment) {
		return err.Error()
	}
	return "apply_patch verification failed: " + err.Error()
}

// Plan is what a patch does to the disk as it was when Verify looked.
type Plan struct {
	Changes []Change `json:"changes"`
}

// Change is what happens to one file.
type Change struct {
	Kind        Kind   `json:"kind"`
	Spelled     string `json:"spelled"` // the path in the patch; of the destination where there is one
	Path        string `json:"path"`    // absolute
	MoveTo      string `json:"moveTo,omitempty"`
	Before      State  `json:"before"`                // of Path
	Destination *State `json:"destination,omitempty"` // of MoveTo, before
	After       []byte `json:"after,omitempty"`

	diff *string // what Diff returned
}

// State is what stood at a path.
type State struct {
	Presence Presence `json:"presence"`
	SHA256   string   `json:"sha256,omitempty"` // lower-case hex
	Size     int64    `json:"size,omitempty"`
	Data     []byte   `json:"data,omitempty"` // not of large files
}

// Presence says whether there was a file.
type Presence int

// The presences. Unknown is what could not be read as a file: it is not compared again before writing.
const (
	PresenceUnknown Presence = iota
	PresenceAbsent
	PresenceFile
)

// Target is the path where the change's content ends up.
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

// Slim returns the plan without the content that was there before; it is all that Apply needs.
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

// Digest names the plan: the same paths, the same content before, the same content after.
func (p *Plan) Digest() string {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(p.Slim()); err != nil {
		panic("patch: encode plan: " + err.Error()) // strings, numbers and bytes only
	}
	return "p1:" + hex.EncodeToString(h.Sum(nil))
}

// Verify finds out what the patch would do to the files below cwd, an absolute path, and writes nothing. The error's text
// is for [Explain].
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
		// A move onto itself is no move: the file must not be removed behind its own new content.
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

// checkTargets refuses patches in which one hunk would undo another: the content of each is made from the disk as it is
// now. Deleting a file and then moving another to its place is fine.
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
			stat = os.Lstat // a link is removed, not what it points to
		}
		info, err := stat(path)
		if err != nil {
			continue
		}
		for _, other := range infos {
			if os.SameFile(info, other) { // links, or names that differ in case only
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
		// Nothing is checked: what stands there is overwritten. Its content is kept where it can be read.
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
			there, _ := read(c.MoveTo) // overwritten like an added file
			c.Destination = &there
		}
	}
	return nil
}

// read returns what stands at path. Only regular files are read: a pipe or a device could block for ever.
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

// AfterSHA256 is the digest of what the change writes.
func (c *Change) AfterSHA256() string { return stateOf(c.After).SHA256 }

// Whole reports whether the content is known.
func (s State) Whole() bool { return s.Presence == PresenceFile && s.Size == int64(len(s.Data)) }
