package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agent/gantry/plugins/mcp/internal/auth"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/catalog"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/server"
	"github.com/gantry-agent/gantry/plugins/mcp/internal/transport"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

type tryArgs struct {
	Name  string   `json:"name" jsonschema:"Name of the server."`
	Asked []string `json:"asked,omitempty" jsonschema:"Hosts and folders that are not asked about."`
}

// The answers to whether a server is given more.
const (
	answerAllow = "allow"
	answerDeny  = "refuse"
)

// tryServer is the command try.
func (p *mcpPlugin) tryServer(ctx context.Context, c *tool.CommandCall, in tryArgs) (any, error) {
	b, err := p.block(in.Name)
	if err != nil {
		return nil, err
	}
	e, err := p.enabled(b)
	if err != nil {
		return nil, err
	}
	if b.URL != "" {
		err := e.server.Start(ctx)
		if login, ok := errors.AsType[*auth.LoginError](err); ok {
			return message{fmt.Sprintf("%v", login)}, nil
		}
		if err != nil {
			return nil, err
		}
		return p.works(ctx, e)
	}
	var tail transport.Tail
	s := server.New(server.Config{
		Name: b.Name, Open: started(c.Env().Declared, c.Env().Logger, b.Name, &tail), Client: &mcp.Implementation{Name: "gantry", Title: "gantry", Version: p.version},
		Protocol: b.Protocol, StartupTimeout: b.StartupTimeout, Choice: catalog.Choice{Allow: b.Allow, Deny: b.Deny},
		Sampling: b.Sampling != samplingOff, Roots: b.roots(), Logger: c.Env().Logger, // what a server offers may depend on them
	})
	failed := s.Start(ctx)
	found := s.Status()
	s.Close()
	denials, err := c.Env().Denials(ctx, contract.ProcessName("server", b.Name))
	if err != nil {
		if failed != nil { // it could not be started at all
			return nil, failed
		}
		return nil, err
	}
	var hosts []string
	for _, h := range denials.Hosts {
		if host, port, err := net.SplitHostPort(h); err == nil && port == "443" {
			h = host
		}
		hosts = append(hosts, h)
	}
	t := trial{c: c, name: b.Name, asked: in.Asked}
	if err := t.ask(ctx, "reach the host", "its sandbox has denied it to reach the host", "network", denials.Network, hosts, nil); err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // "": there is none, as in some containers
	folders, tried := deniedFolders(tail.String(), home, c.Env().DataDir)
	if err := t.ask(ctx, "write in the folder", "the server says that it could not write in", "writable_roots", denials.WritableRoots, folders, tried); err != nil {
		return nil, err
	}
	if t.allowed {
		if err := c.Continue("try", tryArgs{Name: b.Name, Asked: t.asked}); err != nil {
			return nil, err
		}
		return message{fmt.Sprintf("the server %q is started once more, with what you have allowed", b.Name)}, nil
	}
	var lines []string
	if len(t.denied) > 0 {
		line := strings.Join(t.denied, "; ") + ". To allow it, run `gantry mcp try " + b.Name + "` on a terminal"
		if len(t.missing) > 0 {
			line += ", or write in its block:\n" + t.block()
		}
		lines = append(lines, line)
	}
	if failed != nil {
		return nil, errors.New(strings.Join(append([]string{failed.Error()}, lines...), "\n"))
	}
	e.server.Learn(found)
	m, err := p.works(ctx, e)
	m.Message = strings.Join(append([]string{m.Message}, lines...), "\n")
	return m, err
}

// works publishes the tools of a server that has been started, and says which it offers and which are withheld.
func (p *mcpPlugin) works(ctx context.Context, e *entry) (message, error) {
	if err := p.publish(); err != nil {
		return message{}, err
	}
	o := e.offered(ctx, e.server.Status())
	text := ready(e.block.Name, o.tools)
	if problem := o.problem(e.block.Name); problem != "" {
		text += "\n" + problem
	}
	return message{text}, nil
}

// ready says what a server offers.
func ready(name string, tools []catalog.Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		names = append(names[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("the server %q works; its tools: %s", name, cmp.Or(catalog.Line(strings.Join(names, ", "), 1000), "none"))
}

// trial is what a server was denied when it was tried.
type trial struct {
	c       *tool.CommandCall
	name    string
	asked   []string
	allowed bool                // something, which is part of the edits
	denied  []string            // in words, with how it is known
	missing map[string][]string // by the argument of the sandbox, what would allow it
}

// ask asks about what the server was denied, and proposes to add what is allowed to an argument of its sandbox. now is its value, reason
// says how the denial is known, and tried has the path that was denied for each folder.
func (t *trial) ask(ctx context.Context, what, reason, argument string, now, wanted []string, tried map[string]string) error {
	value := slices.Clone(now)
	for _, w := range wanted {
		yes, create := false, ""
		text := strings.ToUpper(reason[:1]) + reason[1:] + " " + w + "."
		if path := tried[w]; path != "" {
			text = fmt.Sprintf("The server says that it could not write %s when it was started.", path)
			if _, err := os.Stat(w); errors.Is(err, fs.ErrNotExist) {
				create = fmt.Sprintf(" (which does not exist: create it with `mkdir %s`)", word(w))
				text += fmt.Sprintf(" The folder does not exist: to allow it, first create it with `mkdir %s`.", word(w))
			}
		}
		if slices.Contains(now, w) {
			if create != "" { // so it could not be allowed
				t.denied = append(t.denied, reason+" "+w+create)
			}
			continue
		}
		if !slices.Contains(t.asked, w) {
			a, err := t.c.Ask(ctx, tool.Question{
				Title:   fmt.Sprintf("Let the server %q %s %s?", t.name, what, w),
				Message: text, Options: []string{answerAllow, answerDeny},
			})
			switch {
			case err != nil:
				return err
			case a.Dismissed, a.Cancelled:
				return errors.New("nothing was changed: the question was closed")
			}
			t.asked, yes = append(t.asked, w), !a.Declined && string(a.JSON) == `"`+answerAllow+`"`
		}
		if yes {
			value = append(value, w)
			continue
		}
		t.denied = append(t.denied, reason+" "+w+create)
		if t.missing == nil {
			t.missing = map[string][]string{}
		}
		t.missing[argument] = append(t.missing[argument], w)
	}
	if len(value) == len(now) {
		return nil
	}
	t.allowed = true
	return t.c.Set(value, "server", t.name, "sandbox", argument)
}

// block returns the block that would allow what was denied.
func (t *trial) block() string {
	var b strings.Builder
	b.WriteString("sandbox {\n")
	for _, argument := range []string{"network", "writable_roots"} {
		if list := t.missing[argument]; len(list) > 0 {
			fmt.Fprintf(&b, "  %s = [", argument)
			for i, v := range list {
				fmt.Fprintf(&b, "%s%q", map[bool]string{true: ", "}[i > 0], v)
			}
			b.WriteString("]\n")
		}
	}
	b.WriteString("}")
	return b.String()
}

// deniedWord matches what programs say about a write that was denied, and deniedPath the paths in such a line.
var (
	deniedWord = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)read-only file system|EROFS|permission denied|EACCES|operation not permitted|EPERM`)
	})
	deniedPath = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`/[^\s'"` + "`" + `‘’“”:,;()<>|*?\x00-\x1f]+`)
	})
)

// maxFolders bounds how many folders a server can be asked about.
const maxFolders = 8

// deniedFolders returns the folders in which a program could not write, by what it has written to its standard error, and for each the path
// that it has named. They are a stranger's words: what they name is only asked about. home is the user's; neither it nor a folder that
// contains it or own, the plugin's folder in gantry's home, is returned.
func deniedFolders(text, home, own string) (out []string, tried map[string]string) {
	tried = map[string]string{}
	for line := range strings.Lines(text) {
		if !deniedWord().MatchString(line) {
			continue
		}
		for _, p := range deniedPath().FindAllString(catalog.Line(line, 4<<10), -1) {
			if dir := folderOf(p, home, own); dir != "" && !sensitive(dir) && !slices.Contains(out, dir) && len(out) < maxFolders {
				out, tried[dir] = append(out, dir), path.Clean(p)
			}
		}
	}
	return out, tried
}

// folderOf returns the folder to ask about for a path: that of a program's own files in a home, such as ~/.npm or ~/.cache/uv, otherwise
// the one that the path is in, or the path itself if that would be a whole home. "": none, because it would be too much.
func folderOf(p, userHome, own string) string {
	p = path.Clean(p)
	parts := strings.Split(strings.TrimPrefix(p, "/"), "/")
	home := homeOf(parts)
	contains := func(dir, p string) bool { return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }
	if userHome = path.Clean(userHome); userHome != "/" && strings.HasPrefix(p, userHome+"/") {
		home = strings.Count(userHome, "/")
	}
	if home > 0 && len(parts) > home && strings.HasPrefix(parts[home], ".") {
		depth := home + 1
		if slices.Contains([]string{".cache", ".config", ".local", ".local/share"}, parts[home]) {
			depth++
		}
		if parts[home] == ".local" {
			depth++
		}
		if len(parts) < depth {
			return ""
		}
		return "/" + strings.Join(parts[:depth], "/")
	}
	dir := path.Dir(p)
	whole := func(dir string) bool {
		return contains(dir, userHome) || contains(dir, own) || strings.Count(dir, "/") <= home
	}
	switch info, err := os.Stat(p); {
	case dir == "/" || whole(p):
		return ""
	case !whole(dir):
	case err == nil && !info.IsDir(): // a file in a home
		return ""
	default:
		dir = p
	}
	if strings.Count(dir, "/") < 2 { // "/etc"
		return ""
	}
	for _, system := range []string{"/proc", "/sys", "/dev", "/usr", "/etc", "/boot", "/run"} {
		if dir == system || strings.HasPrefix(dir, system+"/") {
			return ""
		}
	}
	return dir
}
