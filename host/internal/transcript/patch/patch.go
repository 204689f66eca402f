// Package patch describes for display the changes of a patch that a model is still writing.
//
// It owns: what can be said about the beginning of a patch in the format of apply_patch. It does not know who applies the patch: the tool
// parses it when it is complete, and what is said here has no effect on that.
//
// Start with [Changes].
package patch

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/protocol"
)

const begin = "*** Begin Patch"

// Changes returns the changes of a patch as far as it is written, with the lines that are complete. Paths are relative to cwd. input may
// also be the beginning of a JSON object with the patch in a string. If it is no patch, there are no changes.
func Changes(input, cwd string) []protocol.FileUpdateChange {
	text := strings.TrimLeft(input, " \t\r\n")
	if strings.HasPrefix(text, "{") {
		text = unquoted(text)
	}
	if !strings.HasPrefix(text, begin) || !strings.Contains(text, "\n") {
		return nil
	}
	lines := strings.Split(text, "\n")
	var out []protocol.FileUpdateChange
	var added int // lines of the file that is being added
	current := func() *protocol.FileUpdateChange { return &out[len(out)-1] }
	end := func() {
		if len(out) == 0 {
			return
		}
		if _, is := current().Kind.Body.(protocol.AddPatch); is {
			current().Diff = fmt.Sprintf("@@ -0,0 +1,%d @@\n", added) + current().Diff
		}
		added = 0
	}
	defer func() { end() }()
	start := func(path string, kind protocol.PatchChange) {
		end()
		out = append(out, protocol.FileUpdateChange{Path: absolute(cwd, path), Kind: protocol.PatchChangeKind{Body: kind}})
	}
	for _, line := range lines[1 : len(lines)-1] { // the last one is not complete
		line = strings.TrimSuffix(line, "\r")
		if path, ok := strings.CutPrefix(line, "*** Add File: "); ok {
			start(path, protocol.AddPatch{})
		} else if path, ok := strings.CutPrefix(line, "*** Delete File: "); ok {
			start(path, protocol.DeletePatch{})
		} else if path, ok := strings.CutPrefix(line, "*** Update File: "); ok {
			start(path, protocol.UpdatePatch{})
		} else if strings.HasPrefix(line, "*** End Patch") {
			break
		} else if len(out) > 0 {
			switch current().Kind.Body.(type) {
			case protocol.UpdatePatch:
				if path, ok := strings.CutPrefix(line, "*** Move to: "); ok {
					to := absolute(cwd, path)
					current().Kind.Body = protocol.UpdatePatch{MovePath: &to}
				} else if !strings.HasPrefix(line, "*** ") {
					current().Diff += line + "\n"
				}
			case protocol.AddPatch:
				current().Diff += line + "\n"
				added++
			}
		}
	}
	return out
}

func absolute(cwd, path string) string {
	if path = strings.TrimSpace(path); filepath.IsAbs(path) || cwd == "" {
		return path
	}
	return filepath.Join(cwd, path)
}

// unquoted returns what is written so far of the first string in a JSON object that begins like a patch.
func unquoted(object string) string {
	at := strings.Index(object, `"`+begin)
	if at < 0 {
		return ""
	}
	s := object[at+1:]
	end := 0
	for end < len(s) && s[end] != '"' {
		size := 1
		if s[end] == '\\' {
			if size = 2; end+1 < len(s) && s[end+1] == 'u' {
				size = 6
			}
		}
		if end+size > len(s) { // the rest of the escape is still to come
			break
		}
		end += size
	}
	var text string
	if json.Unmarshal([]byte(`"`+s[:end]+`"`), &text) != nil {
		return ""
	}
	return text
}
