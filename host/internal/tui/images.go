package tui

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/tui/transcript"
)

// imageTypes are the file names that are sent as images.
const imageTypes = ".png .jpg .jpeg .gif .webp"

func isImage(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext != "" && slices.Contains(strings.Fields(imageTypes), ext)
}

// input is a message as the server takes it: images that are mentioned with @, as seen from a folder, are sent along with the text.
func input(dir, text string) []protocol.UserInput {
	out := []protocol.UserInput{{Body: protocol.TextInput{Text: text}}}
	for _, found := range regexp.MustCompile(`(?:^|\s)@(?:"([^"\n]+)"|(\S+))`).FindAllStringSubmatch(text, maxImages) {
		path := found[1] + found[2]
		if !isImage(path) {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		out = append(out, protocol.UserInput{Body: protocol.LocalImageInput{Path: path}})
	}
	return out
}

// typed returns what was typed of a message that was sent by [input].
func typed(parts []protocol.UserInput) string {
	mentioned := slices.DeleteFunc(slices.Clone(parts), func(p protocol.UserInput) bool {
		_, image := p.Body.(protocol.LocalImageInput)
		return image
	})
	if len(mentioned) == 0 {
		mentioned = parts
	}
	return transcript.Input(mentioned)
}

// maxImages bounds the mentions of a message that are looked at.
const maxImages = 20

// dropped returns the path of an image that was dropped on the terminal, which pastes it: as it is, in quotation marks, with backslashes, or as
// a URL.
func dropped(paste string) (path string, ok bool) {
	s := strings.TrimSpace(paste)
	switch {
	case strings.ContainsAny(s, "\n\""):
		return "", false
	case strings.HasPrefix(s, "file://"):
		u, err := url.Parse(s)
		if err != nil {
			return "", false
		}
		s = u.Path
	case len(s) > 2 && s[0] == '\'' && s[len(s)-1] == '\'':
		s = s[1 : len(s)-1]
	default:
		s = regexp.MustCompile(`\\(.)`).ReplaceAllString(s, "$1")
	}
	return s, filepath.IsAbs(s) && isImage(s)
}

// pasteImage mentions an image that was dropped, or inserts what was pasted if there is no such file.
func pasteImage(paste, path string) tea.Cmd {
	return func() tea.Msg {
		info, err := os.Stat(path)
		return applied(func(m *Model) tea.Cmd {
			if err != nil || !info.Mode().IsRegular() {
				m.composer.Paste(paste)
				return keepDraft(m)
			}
			mention := "@" + path
			if strings.ContainsAny(path, " \t") {
				mention = `@"` + path + `"`
			}
			m.composer.Paste(mention + " ")
			return keepDraft(m)
		})
	}
}
