package run

import (
	"fmt"
	"path/filepath"

	"github.com/gantry-agent/gantry/host/internal/cli/codex"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

// accessFlags limit what a run may do.
type accessFlags struct {
	sandbox string
	folders []string // may be written in addition to the working folder
	bypass  bool
	hooks   bool // run hooks that are not trusted
}

func (f *accessFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&f.sandbox, "sandbox", "s", "", "sandbox `MODE` of commands: read-only, workspace-write or full-access")
	fs.StringArrayVar(&f.folders, "add-dir", nil, "make `DIR` writable for commands as well; can be repeated")
	fs.BoolVar(&f.bypass, "dangerously-bypass-approvals-and-sandbox", false, "run everything without approval and without a sandbox; only "+
		"for disposable containers")
	fs.BoolVar(&f.hooks, "dangerously-bypass-hook-trust", false, "run your hooks, and those of a trusted project, without asking for "+
		"consent")
	console.Exclusive(cmd, "sandbox", "dangerously-bypass-approvals-and-sandbox")
}

// sets returns the flags as arguments of -c.
func (f *accessFlags) sets() ([]string, error) {
	switch {
	case f.bypass:
		return []string{"approval.policy=never", "sandbox.mode=full-access"}, nil
	case f.sandbox == "":
		return nil, nil
	}
	mode, err := codex.Sandbox(f.sandbox)
	if err != nil {
		return nil, console.Usage("%w", err)
	}
	return []string{"sandbox.mode=" + mode}, nil
}

// roots returns absolute paths of the folders. A missing folder is an error, because files meant for it would be written
// elsewhere.
func (a *app) roots(folders []string) ([]string, error) {
	var out []string
	for _, dir := range folders {
		if dir == "" {
			return nil, console.UsageError{Text: "--add-dir is empty", Next: "specify a folder, or omit it"}
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(a.Dir, dir)
		}
		abs, err := a.WorkDir(dir)
		if err != nil {
			return nil, fmt.Errorf("--add-dir: %w", err)
		}
		out = append(out, abs)
	}
	return out, nil
}
