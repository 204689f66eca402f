package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agent/gantry/plugins/python/internal/interpreter"
	"github.com/gantry-agent/gantry/sdk/process"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// infoTime limits how long a kernel may take to say how it is.
const infoTime = 2 * time.Second

// commands are the plugin's commands, for people.
func (p *pythonPlugin) commands() []tool.Command {
	return []tool.Command{
		tool.NewCommand("status", "Shows which Python runs cells, and the kernels of this gantry process.", p.showStatus),
		tool.NewCommand("reset", "Ends the kernels of this gantry process, or that of one of its threads. Their variables are lost.", p.resetKernels, tool.SideEffects()),
		tool.NewCommand("setup", "Makes a Python environment of gantry's own, and installs the configured packages in it, which needs the network.",
			p.setup, tool.SideEffects()),
	}
}

type statusArgs struct {
	Folder string `json:"folder,omitempty" jsonschema:"Absolute path of the folder whose virtual environment counts. Default: none."`
}

// status is the output of the command status.
type status struct {
	Interpreter interpreterStatus `json:"interpreter"`
	Kernels     []kernelStatus    `json:"kernels"` // of this process, by thread
	Checks      []check           `json:"checks"`
}

type interpreterStatus struct {
	Path    string `json:"path,omitempty"`
	Version string `json:"version,omitempty"`
	Own     bool   `json:"own"` // it is that of the environment that setup has made
}

type kernelStatus struct {
	Thread    string `json:"thread"`
	Session   string `json:"session"`
	PID       int    `json:"pid"`
	Python    string `json:"python"`
	Version   string `json:"version,omitempty"`
	State     string `json:"state"`                  // "idle", "running", "busy": it computes and can't answer
	Memory    int64  `json:"memory_bytes,omitempty"` // resident memory of the kernel itself
	Escalated bool   `json:"escalated"`              // it runs outside of the sandbox
}

// check is a finding, as `gantry doctor` shows it.
type check struct {
	Status string `json:"status"` // "ok", "warning", "error"
	Text   string `json:"text"`
	Next   string `json:"next,omitempty"`
}

func (p *pythonPlugin) showStatus(ctx context.Context, c *tool.CommandCall, in statusArgs) (any, error) {
	s := status{Kernels: []kernelStatus{}}
	threads := p.all()
	for _, id := range slices.Sorted(maps.Keys(threads)) {
		if r := threads[id].running(); r != nil {
			s.Kernels = append(s.Kernels, r.status(ctx, id))
		}
	}
	path, err := p.python(in.Folder)
	if err != nil {
		s.Checks = []check{{Status: "error", Text: err.Error()}}
		return s, nil
	}
	s.Interpreter = interpreterStatus{Path: path, Own: path == p.own()}
	s.Interpreter.Version, err = version(ctx, c, path)
	s.Checks = []check{p.checked(s.Interpreter, err)}
	return s, nil
}

// checked says whether an interpreter can run cells. err is why its version is not known.
func (p *pythonPlugin) checked(i interpreterStatus, err error) check {
	var refused *process.StartError
	switch {
	case errors.As(err, &refused) && refused.Denied:
		return check{"warning", fmt.Sprintf("%s was not started: %s", i.Path, refused.Message), ""}
	case err != nil:
		return check{"error", fmt.Sprintf("%s doesn't start: %v", i.Path, err), nextBroken}
	case interpreter.Old(i.Version):
		return check{"error", fmt.Sprintf("%s is Python %s, which is too old", i.Path, i.Version), nextOld}
	}
	return check{"ok", fmt.Sprintf("Python %s, %s", i.Version, i.Path), ""}
}

func (r *running) status(ctx context.Context, thread string) kernelStatus {
	s := kernelStatus{
		Thread: thread, Session: r.ID, PID: r.pid, Python: cmp.Or(r.Executable, r.note.Python), Version: r.Version, State: "busy", Escalated: r.Escalated,
	}
	ctx, cancel := context.WithTimeout(ctx, infoTime)
	defer cancel()
	if info, err := r.Info(ctx); err == nil {
		s.Version, s.Memory, s.State = info.Version, info.Memory, "idle"
		if info.Running {
			s.State = "running"
		}
	}
	return s
}

type resetKernelsArgs struct {
	Thread string `json:"thread,omitempty" jsonschema:"ID of the thread whose kernel ends. Default: all."`
}

// endedKernels is the output of the command reset.
type endedKernels struct {
	Ended []string `json:"ended"` // IDs of threads
}

func (p *pythonPlugin) resetKernels(ctx context.Context, _ *tool.CommandCall, in resetKernelsArgs) (any, error) {
	out := endedKernels{Ended: []string{}}
	threads := p.all()
	if in.Thread != "" && (threads[in.Thread] == nil || threads[in.Thread].running() == nil) {
		return nil, fmt.Errorf("this gantry process has no kernel of the thread %s; next: run the command in the process that runs the thread", in.Thread)
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(threads)) {
		if in.Thread != "" && id != in.Thread || threads[id].running() == nil {
			continue
		}
		if err := threads[id].stop(ctx, "", "the user has ended it"); err != nil {
			errs = append(errs, fmt.Errorf("the kernel of the thread %s did not end: %w", id, err))
			continue
		}
		out.Ended = append(out.Ended, id)
	}
	return out, errors.Join(errs...)
}

// ownFile is the file in the plugin's data folder that contains the path of the interpreter that setup has prepared.
const ownFile = "interpreter"

// own returns the interpreter of the environment that setup has made; empty: there is none. Another process may have made it.
func (p *pythonPlugin) own() string {
	if p.data == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(p.data, ownFile))
	if path := strings.TrimSpace(string(b)); err == nil && filepath.IsAbs(path) {
		return path
	}
	return ""
}

// environment is the output of the command setup.
type environment struct {
	Environment string   `json:"environment"` // a folder
	Python      string   `json:"python"`      // version
	Packages    []string `json:"packages"`
	Installer   string   `json:"installer"` // "uv" or "pip"
}

func (p *pythonPlugin) setup(ctx context.Context, c *tool.CommandCall, _ struct{}) (any, error) {
	switch {
	case p.config.Interpreter != "":
		return nil, errors.New("the plugin's block sets interpreter, so no other environment is used; next: install packages there, or remove interpreter")
	case len(p.config.Packages) == 0:
		return nil, errors.New(`the plugin's block names no packages; next: add for example packages = ["numpy", "pandas"]`)
	}
	base, err := p.finder.Base()
	if err != nil {
		return nil, err
	}
	// Only the host knows the folder in which the command may write.
	dir, err := outputOf(ctx, c, base, "-I", "-c", "import os; print(os.getcwd())")
	if err != nil {
		return nil, fmt.Errorf("%s doesn't start: %w; next: %s", base, err, nextBroken)
	}
	out := environment{Environment: filepath.Join(dir, "environment"), Packages: p.config.Packages, Installer: "pip"}
	python := p.finder.Program(out.Environment)
	uv, err := exec.LookPath("uv")
	if err == nil {
		out.Installer = "uv"
	}
	usable := []string{python, "-I", "-m", "pip", "--version"} // one that uv has made has no pip
	if uv != "" {
		usable = []string{python, "-I", "-c", ""}
	}
	if _, err := outputOf(ctx, c, usable...); err != nil { // otherwise it only needs the packages
		create := []string{base, "-m", "venv", "--clear", out.Environment}
		if uv != "" {
			create = []string{uv, "venv", "--quiet", "--clear", "--no-python-downloads", "--python", base, out.Environment}
		}
		if _, err := outputOf(ctx, c, create...); err != nil {
			return nil, fmt.Errorf("the environment can't be made: %w; next: install uv, or Python's venv (on Debian, the package python3-venv)", err)
		}
	}
	install := []string{python, "-I", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"}
	if uv != "" {
		install = []string{uv, "pip", "install", "--quiet", "--python", python}
	}
	if _, err := outputOf(ctx, c, slices.Concat(install, []string{"--"}, p.config.Packages)...); err != nil {
		return nil, fmt.Errorf("the packages can't be installed: %w; next: check their names and the network, and run setup again", err)
	}
	if out.Python, err = version(ctx, c, python); err != nil {
		return nil, fmt.Errorf("the environment's Python doesn't start: %w", err)
	}
	if err := os.WriteFile(filepath.Join(p.data, ownFile), []byte(python+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("remember the environment: %w", err)
	}
	return out, nil
}

// version starts an interpreter and returns its version.
func version(ctx context.Context, c *tool.CommandCall, python string) (string, error) {
	return outputOf(ctx, c, python, "-I", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])")
}

// maxShown is the size of the end of a failed program's output that an error contains.
const maxShown = 2000

// outputOf runs a program and returns what it prints.
func outputOf(ctx context.Context, c *tool.CommandCall, argv ...string) (string, error) {
	cmd := c.Command(ctx, argv...)
	cmd.Env = []string{"PIP_NO_CACHE_DIR=1", "UV_NO_CACHE=1", "UV_LINK_MODE=copy"}
	b, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(b))
	if err != nil && text != "" {
		if n := len(text) - maxShown; n > 0 {
			text = "[…]" + strings.ToValidUTF8(text[n:], "")
		}
		err = fmt.Errorf("%w\n%s", err, text)
	}
	return text, err
}
