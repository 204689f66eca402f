package patch

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// ParseError reports invalid syntax of a patch. Line is 0 if the error concerns the entire text. Its text is for the model.
type ParseError struct {
	Line    int
	Message string
}

// Error implements error.
func (e *ParseError) Error() string {
	if e.Line == 0 {
		return "invalid patch: " + e.Message
	}
	return fmt.Sprintf("invalid hunk at line %d, %s", e.Line, e.Message)
}

var (
	errFirstLine = &ParseError{Message: "The first line of the patch must be '*** Begin Patch'"}
	errLastLine  = &ParseError{Message: "The last line of the patch must be '*** End Patch'"}
)

// Unwrap returns the patch inside a JSON object such as {"input": "…"} or {"patch": "…"}, in which some models wrap it. It returns any other
// text unchanged.
func Unwrap(text string) string {
	t := strings.TrimSpace(text)
	if !strings.HasPrefix(t, "{") {
		return text
	}
	var wrapped struct {
		Input *string `json:"input"`
		Patch *string `json:"patch"`
	}
	if json.Unmarshal([]byte(t), &wrapped) != nil {
		return text
	}
	switch {
	case wrapped.Input != nil:
		return *wrapped.Input
	case wrapped.Patch != nil:
		return *wrapped.Patch
	}
	return text
}

// Parse parses a patch. It tolerates common mistakes of models: white space around the markers, a surrounding heredoc, CR before LF. The
// error is a *ParseError.
func Parse(text string) (*Patch, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if err := boundaries(lines); err != nil {
		inner, ok := insideHeredoc(lines)
		if !ok {
			return nil, err
		}
		if err := boundaries(inner); err != nil {
			return nil, err
		}
		lines = inner
	}
	p := parser{patch: &Patch{}}
	// The last line is the end marker, which boundaries has checked. It is excluded because, if indented, it would be parsed as a
	// context line of an update.
	for i, line := range lines[1 : len(lines)-1] {
		p.line = i + 2
		if err := p.read(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, err
		}
	}
	p.line = len(lines)
	if err := p.end(); err != nil {
		return nil, err
	}
	return p.patch, nil
}

func boundaries(lines []string) error {
	if strings.TrimSpace(lines[0]) != beginMarker {
		return errFirstLine
	}
	if len(lines) < 2 || strings.TrimSpace(lines[len(lines)-1]) != endMarker {
		return errLastLine
	}
	return nil
}

// insideHeredoc removes the delimiters of a heredoc that was sent without its command.
func insideHeredoc(lines []string) ([]string, bool) {
	if len(lines) < 4 || !strings.HasSuffix(lines[len(lines)-1], "EOF") {
		return nil, false
	}
	switch strings.TrimSuffix(lines[0], "\r") {
	case "<<EOF", "<<'EOF'", `<<"EOF"`:
		return lines[1 : len(lines)-1], true
	}
	return nil, false
}

// parser parses line by line. The current hunk is the last one in patch.
type parser struct {
	patch *Patch
	line  int
	ended bool // there was an end marker before the last line

	content strings.Builder // of the current hunk, if it adds a file
}

func (p *parser) read(line string) error {
	if p.ended {
		if strings.TrimSpace(line) != "" {
			return errLastLine
		}
		return nil
	}
	h := p.hunk()
	if h != nil && h.Kind == KindUpdate {
		return p.readUpdate(h, line)
	}
	if h != nil && h.Kind == KindAdd {
		if text, ok := strings.CutPrefix(line, "+"); ok {
			p.content.WriteString(text)
			p.content.WriteByte('\n')
			return nil
		}
	}
	trimmed := strings.TrimSpace(line)
	if ok, err := p.header(trimmed); ok || err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(trimmed, envMarker); ok && h == nil {
		return p.environment(strings.TrimSpace(rest))
	}
	return p.errorf("'%s' is not a valid hunk header. Valid hunk headers: '*** Add File: {path}', "+
		"'*** Delete File: {path}', '*** Update File: {path}'", trimmed)
}

// header parses a line that begins a hunk or ends the patch, and reports whether it is one.
func (p *parser) header(line string) (bool, error) {
	if line == endMarker {
		p.ended = true
		return true, p.end()
	}
	next := Hunk{Line: p.line}
	if path, ok := strings.CutPrefix(line, addMarker); ok {
		next.Kind, next.Path = KindAdd, path
	} else if path, ok := strings.CutPrefix(line, deleteMarker); ok {
		next.Kind, next.Path = KindDelete, path
	} else if path, ok := strings.CutPrefix(line, updateMarker); ok {
		next.Kind, next.Path = KindUpdate, path
	} else {
		return false, nil
	}
	if h := p.hunk(); h != nil && h.Kind == KindUpdate && len(h.Chunks) > 0 && len(lastChunk(h).Lines) == 0 {
		return true, p.unexpected(line)
	}
	if err := p.end(); err != nil {
		return true, err
	}
	p.patch.Hunks = append(p.patch.Hunks, next)
	return true, nil
}

func (p *parser) environment(id string) error {
	if p.patch.HasEnvironment {
		return &ParseError{Message: "apply_patch environment_id specified more than once"}
	}
	if id == "" {
		return &ParseError{Message: "apply_patch environment_id cannot be empty"}
	}
	p.patch.Environment, p.patch.HasEnvironment = id, true
	return nil
}

func (p *parser) readUpdate(h *Hunk, line string) error {
	// Only the right side is trimmed: an indented marker is a context line of a file that contains patches.
	trimmed := strings.TrimRightFunc(line, unicode.IsSpace)
	if ok, err := p.header(trimmed); ok || err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(trimmed, moveMarker); ok && len(h.Chunks) == 0 && h.MoveTo == "" {
		h.MoveTo = path
		return nil
	}
	c := lastChunk(h)
	context, hasContext := strings.CutPrefix(line, chunkMarker+" ")
	if trimmed == chunkMarker || hasContext {
		if c != nil && len(c.Lines) == 0 {
			return p.unexpected(line)
		}
		hasContext = hasContext && trimmed != chunkMarker
		if !hasContext {
			context = ""
		}
		h.Chunks = append(h.Chunks, Chunk{Context: context, HasContext: hasContext})
		return nil
	}
	if c != nil && c.EndOfFile {
		if trimmed == "" {
			return nil
		}
		return p.expectedChunk(line)
	}
	if trimmed == eofMarker {
		if c == nil || len(c.Lines) == 0 {
			return p.errorf("Update hunk does not contain any lines")
		}
		c.EndOfFile = true
		return nil
	}
	l, ok := diffLine(line)
	switch {
	case !ok && (c == nil || len(c.Lines) == 0):
		return p.unexpected(line)
	case !ok:
		return p.expectedChunk(line)
	case c == nil: // the first chunk may lack its marker
		h.Chunks = append(h.Chunks, Chunk{Lines: []Line{l}})
	default:
		c.Lines = append(c.Lines, l)
	}
	return nil
}

func diffLine(line string) (Line, bool) {
	if line == "" {
		return Line{Op: OpKeep}, true // an empty context line without its leading space
	}
	switch op := Op(line[0]); op {
	case OpKeep, OpAdd, OpRemove:
		return Line{Op: op, Text: line[1:]}, true
	}
	return Line{}, false
}

// end completes and checks the current hunk. It may be called more than once.
func (p *parser) end() error {
	h := p.hunk()
	if h == nil || h.Kind == KindDelete {
		return nil
	}
	if h.Kind == KindAdd {
		h.Content += p.content.String()
		p.content.Reset()
		return nil
	}
	if len(h.Chunks) == 0 {
		return emptyUpdate(h)
	}
	if len(lastChunk(h).Lines) == 0 {
		return p.errorf("Update hunk does not contain any lines")
	}
	return nil
}

func (p *parser) hunk() *Hunk {
	if len(p.patch.Hunks) == 0 {
		return nil
	}
	return &p.patch.Hunks[len(p.patch.Hunks)-1]
}

func lastChunk(h *Hunk) *Chunk {
	if len(h.Chunks) == 0 {
		return nil
	}
	return &h.Chunks[len(h.Chunks)-1]
}

func (p *parser) errorf(format string, args ...any) error {
	return &ParseError{Line: p.line, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) unexpected(line string) error {
	return p.errorf("Unexpected line found in update hunk: '%s'. Every line should start with ' ' (context line), "+
		"'+' (added line), or '-' (removed line)", line)
}

func (p *parser) expectedChunk(line string) error {
	return p.errorf("Expected update hunk to start with a @@ context marker, got: '%s'", line)
}

func emptyUpdate(h *Hunk) error {
	return &ParseError{Line: h.Line, Message: fmt.Sprintf("Update file hunk for path '%s' is empty", h.Path)}
}
