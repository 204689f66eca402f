// Package action describes for display what a command line does: which files it reads, which folders it lists and what it searches for.
//
// It owns: the programs whose options it knows. It does not know who runs the command. What it says is a best guess about a line that has
// no effect on what the line may do: policies are decided by package policy.
//
// Start with [Of].
package action

import (
	"path"
	"strings"

	"github.com/gantry-agent/gantry/host/internal/policy/command"
	"github.com/gantry-agent/gantry/host/internal/protocol"
)

// maxLine bounds the lines that are parsed, in bytes: nobody reads a summary of a longer one.
const maxLine = 16 << 10

// Of returns the actions of a command line that runs in a folder. If a part of the line is not understood, the result is one
// [protocol.UnknownAction] with the whole line. Compatible with codex's commandActions.
func Of(line, cwd string) []protocol.CommandAction {
	if len(line) <= maxLine {
		if commands, ok := plain(line); ok {
			if actions, ok := describe(commands, cwd); ok {
				return actions
			}
		}
	}
	return []protocol.CommandAction{{Body: protocol.UnknownAction{Command: line}}}
}

// plain returns the simple commands of a line, or of the script if the line is SHELL -c SCRIPT.
func plain(line string) ([]command.Command, bool) {
	commands, ok := command.Plain(line)
	if !ok || len(commands) != 1 {
		return commands, ok
	}
	if argv, fixed := fixed(commands[0]); fixed {
		if script := command.Lower(argv); script.Shell != "" {
			return script.Commands, script.Plain
		}
	}
	return commands, true
}

// fixed returns the words of a command if all are known before it runs.
func fixed(c command.Command) ([]string, bool) {
	argv := make([]string, len(c))
	for i, w := range c {
		if !w.Fixed {
			return nil, false
		}
		argv[i] = w.Text
	}
	return argv, true
}

// describe returns the actions of commands that run one after the other or piped. Commands that only change the folder or the form of
// another one's output have none.
func describe(commands []command.Command, cwd string) (out []protocol.CommandAction, ok bool) {
	dir := "" // where earlier cds lead, from cwd
	for _, c := range commands {
		argv := make([]string, len(c))
		for i, w := range c {
			argv[i] = w.Text
		}
		if argv[0] == "cd" {
			to, ok := fixed(c)
			if !ok || len(to) != 2 || to[1] == "" || strings.HasPrefix(to[1], "-") || strings.HasPrefix(to[1], "~") {
				return nil, false
			}
			dir = join(dir, to[1])
			continue
		}
		p := part{argv: argv, dir: dir, cwd: cwd}
		actions, ok := p.actions()
		if !ok {
			return nil, false
		}
		out = append(out, actions...)
	}
	return out, len(out) > 0
}

// part is a simple command of a line.
type part struct {
	argv []string
	dir  string // folder in which it runs, relative to cwd or absolute
	cwd  string // of the line
}

// actions returns what the command does; none if it only shapes the output of others.
func (p part) actions() ([]protocol.CommandAction, bool) {
	name, args := command.Name(p.argv[0]), p.argv[1:]
	if name == "git" {
		return p.git(args)
	}
	spec, known := programs[name]
	if !known {
		return nil, false
	}
	in, ok := spec.parse(args)
	if !ok {
		return nil, false
	}
	return spec.kind(p, in)
}

// git describes the subcommands that read the work tree.
func (p part) git(args []string) ([]protocol.CommandAction, bool) {
	if len(args) > 0 && args[0] == "--no-pager" {
		args = args[1:]
	}
	if len(args) == 0 {
		return nil, false
	}
	spec, known := gitCommands[args[0]]
	if !known {
		return nil, false
	}
	in, ok := spec.parse(args[1:])
	if !ok {
		return nil, false
	}
	return spec.kind(p, in)
}

func (p part) text() string { return command.Join(p.argv) }

// read describes a command that prints files.
func (p part) read(files []string) ([]protocol.CommandAction, bool) {
	var out []protocol.CommandAction
	for _, f := range files {
		if f == "" || f == "-" || strings.ContainsAny(f, "*?[") {
			return nil, false
		}
		at := join(p.cwd, join(p.dir, f))
		out = append(out, protocol.CommandAction{Body: protocol.ReadAction{Command: p.text(), Name: path.Base(at), Path: at}})
	}
	return out, true
}

// list describes a command that lists folders.
func (p part) list(folders []string) ([]protocol.CommandAction, bool) {
	if len(folders) == 0 {
		return []protocol.CommandAction{{Body: protocol.ListFilesAction{Command: p.text(), Path: optional(p.dir)}}}, true
	}
	var out []protocol.CommandAction
	for _, f := range folders {
		out = append(out, protocol.CommandAction{Body: protocol.ListFilesAction{Command: p.text(), Path: optional(join(p.dir, f))}})
	}
	return out, true
}

// search describes a command that looks for a text in places.
func (p part) search(query string, places []string) ([]protocol.CommandAction, bool) {
	at := p.dir
	if len(places) == 1 {
		at = join(p.dir, places[0])
	} else if len(places) > 1 {
		at = strings.Join(places, " ")
	}
	return []protocol.CommandAction{{Body: protocol.SearchAction{Command: p.text(), Query: &query, Path: optional(at)}}}, true
}

// join returns a path that begins in a folder; an empty folder is the current one.
func join(dir, p string) string {
	if dir == "" || strings.HasPrefix(p, "/") {
		return p
	}
	return path.Join(dir, p)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
