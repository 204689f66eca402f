package agent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/event"
)

// Root is the path of the root agent, which works for the user.
const Root = "/root"

// otherRoot is a second root that paths may name; codex-compatible. No agent is there.
const otherRoot = "/morpheus"

// maxName is how long the name of an agent may be, so that paths stay shorter than the names in mail.
const maxName = 28

const nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789_"

// checkName checks the name of a new agent.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("task_name must not be empty")
	case name == "root" || name == "." || name == "..":
		return fmt.Errorf("task_name %q is reserved", name)
	case strings.Contains(name, "/"):
		return hint.With(fmt.Errorf("task_name %q is a path", name), "use one name without slashes; an agent is placed below the one that spawns it")
	case strings.Trim(name, nameLetters) != "":
		return fmt.Errorf("task_name %q: use only lowercase letters, digits and underscores", name)
	case len(name) > maxName:
		return fmt.Errorf("task_name %q is longer than %d characters", name, maxName)
	}
	return nil
}

// join returns the path of an agent below another one.
func join(parent, name string) string { return parent + "/" + name }

// parentOf returns the path of the agent above; empty: it is a root.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return ""
}

// depthOf returns how many agents are above.
func depthOf(path string) int { return strings.Count(path, "/") - 1 }

// nameIn returns the last name of a path.
func nameIn(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// isWithin reports whether a path is another one or below it.
func isWithin(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || rest[0] == '/')
}

// resolve returns the path that an agent means by a target: an absolute path, or one below its own. id is set instead if the target is
// the ID of a thread.
func resolve(caller, target string) (path string, id event.ThreadID, err error) {
	target = strings.TrimSpace(target)
	if target == "" {
		return "", "", errors.New("target must not be empty")
	}
	if id, err := event.ParseThreadID(target); err == nil {
		return "", id, nil
	}
	path = target
	if !strings.HasPrefix(target, "/") {
		path = join(caller, target)
	}
	return path, "", checkPath(path)
}

// checkPath checks an absolute path.
func checkPath(path string) error {
	if !isWithin(path, Root) && !isWithin(path, otherRoot) {
		return fmt.Errorf("agent path %q is not below %s", path, Root)
	}
	if strings.HasSuffix(path, "/") {
		return fmt.Errorf("agent path %q ends with a slash", path)
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if path != Root && path != otherRoot && name == "" || strings.Trim(name, nameLetters) != "" {
			return fmt.Errorf("agent path %q: names consist of lowercase letters, digits and underscores", path)
		}
	}
	return nil
}
