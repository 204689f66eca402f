package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aymanbagabas/go-udiff"
	"github.com/gantry-agent/gantry/config"
	"github.com/gantry-agent/gantry/config/diag"
	"github.com/gantry-agent/gantry/config/edit"
	"github.com/gantry-agent/gantry/config/format"
	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/lock"
	"github.com/gantry-agent/gantry/config/schema"
	"github.com/gantry-agent/gantry/config/trust"
	"github.com/gantry-agent/gantry/host/internal/cli/console"
	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Validate, show, describe and format the configuration"}
	cmd.AddCommand(a.configValidate(), a.configShow(), a.configSchema(), a.configFormat())
	return cmd
}

// validation is the output of `config validate --json`.
type validation struct {
	Valid       bool             `json:"valid"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

func (a *app) configValidate() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "validate", Short: "Check the configuration", Args: console.Takes(0, 0),
		Long: "validate reads all layers, and checks the settings of each plugin against its manifest. An unset variable or secret is a\n" +
			"warning, because it only affects the block that needs it. Exit status 1: there are errors.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := console.Interruptible(cmd)
			defer stop()
			home, err := a.Home()
			if err != nil {
				return err
			}
			cfg, ds := a.ReadConfig(ctx, home, a.Dir)
			if cfg != nil {
				more, err := a.validate(ctx, cfg, home)
				if err != nil {
					return err
				}
				ds = append(ds, more...)
				ds.Sort()
			}
			return a.showValidation(ds, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showValidation(ds diag.Diagnostics, asJSON bool) error {
	valid := !ds.HasErrors()
	switch {
	case asJSON:
		if ds == nil {
			ds = diag.Diagnostics{}
		}
		if err := a.PrintJSON(validation{valid, ds}); err != nil {
			return err
		}
	default:
		if err := a.Warn(ds); err != nil {
			return err
		}
		if valid {
			fmt.Fprintln(a.Stdout, "the configuration is valid")
		}
	}
	if !valid {
		return console.ErrShown
	}
	return nil
}

// validate checks what the configuration refers to, and the settings of plugins.
func (a *app) validate(ctx context.Context, cfg *config.Config, home string) (ds diag.Diagnostics, err error) {
	p, err := a.ProgramsOf(cfg, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	ds = cfg.Validate()
	all := p.LookAll(ctx)
	for i := range all {
		pr := &all[i]
		if !pr.Block.Enabled {
			continue
		}
		if pr.Manifest != nil {
			_, found := pr.Block.Check(pr.Manifest)
			for _, d := range found {
				if !slices.ContainsFunc(ds, func(o diag.Diagnostic) bool { return o.Summary == d.Summary && o.Range == d.Range }) {
					ds = append(ds, d)
				}
			}
		}
		if pr.Problem != nil {
			ds = append(ds, pr.Warning())
		}
	}
	return ds, nil
}

func (a *app) configShow() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Print the effective configuration and the origin of each setting", Args: console.Takes(0, 0),
		Long: "show prints the result of merging all layers: built-in, system, user, project, --config, --profile, -c. Literal secrets\n" +
			"are hidden; env() and secret() are shown as written.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := a.Home()
			if err != nil {
				return err
			}
			cfg, err := a.LoadConfig(cmd.Context(), home, a.Dir)
			if err != nil {
				return err
			}
			return cfg.Show(a.Stdout)
		},
	}
}

func (a *app) configSchema() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "schema", Short: "Print all settings of gantry.hcl", Args: console.Takes(0, 0),
		RunE: func(*cobra.Command, []string) error {
			text := []byte(schema.Markdown())
			if asJSON {
				text = append(bytes.TrimRight(schema.JSON(), "\n"), '\n')
			}
			_, err := a.Stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// statusUnformatted is the exit status of `config fmt --check` if a file is not formatted.
const statusUnformatted = console.StatusError(3)

type formatFlags struct{ check, diff, recursive, asJSON bool }

func (a *app) configFormat() *cobra.Command {
	var f formatFlags
	cmd := &cobra.Command{
		Use: "fmt [flags] [FILE | DIR | -]...", Short: "Format configuration files",
		Long: "fmt formats each FILE, or the *.hcl files in each DIR, and prints the names of the files that it changed. Without an\n" +
			"argument, it formats your own file and the project's. With -, it formats standard input to standard output. Exit status\n" +
			"3: with --check, a file is not formatted.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.format(cmd.Context(), f, args) },
	}
	fs := cmd.Flags()
	fs.BoolVar(&f.check, "check", false, "change nothing; exit with status 3 if a file would change")
	fs.BoolVar(&f.diff, "diff", false, "print a diff of the changes")
	fs.BoolVarP(&f.recursive, "recursive", "r", false, "process subfolders as well")
	fs.BoolVar(&f.asJSON, "json", false, "print problems as JSON")
	return cmd
}

func (a *app) format(ctx context.Context, f formatFlags, args []string) error {
	home, err := a.Home()
	if err != nil {
		return err
	}
	if slices.Contains(args, "-") {
		if len(args) > 1 {
			return console.UsageError{Text: "- (standard input) can't be combined with files", Next: "format them one at a time"}
		}
		return a.formatInput(f)
	}
	files, err := a.filesToFormat(home, args, f.recursive)
	if err != nil {
		return err
	}
	var problems diag.Diagnostics
	changed := false
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("format: %w", err)
		}
		out, ds := format.Format(text, a.Shown(path))
		problems = append(problems, ds...)
		if ds.HasErrors() || bytes.Equal(text, out) {
			continue
		}
		changed = true
		fmt.Fprintln(a.Stdout, a.Shown(path))
		if f.diff {
			fmt.Fprint(a.Stdout, udiff.Unified(a.Shown(path), a.Shown(path), string(text), string(out)))
		}
		if !f.check {
			if err := a.replaceLayout(ctx, home, path, text, out); err != nil {
				return err
			}
		}
	}
	return a.formatted(f, problems, changed)
}

// formatted prints the problems and returns the exit status.
func (a *app) formatted(f formatFlags, problems diag.Diagnostics, changed bool) error {
	if f.asJSON && len(problems) > 0 {
		if err := a.PrintJSON(validation{!problems.HasErrors(), problems}); err != nil {
			return err
		}
	} else if err := a.Warn(problems); err != nil {
		return err
	}
	switch {
	case problems.HasErrors():
		return console.ErrShown
	case f.check && changed:
		return statusUnformatted
	}
	return nil
}

func (a *app) formatInput(f formatFlags) error {
	const name = "<stdin>"
	if a.Stdin == nil {
		return console.UsageError{Text: "no standard input", Next: "pipe text in, or specify a file"}
	}
	text, err := io.ReadAll(a.Stdin)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	out, ds := format.Format(text, name)
	changed := !ds.HasErrors() && !bytes.Equal(text, out)
	switch {
	case ds.HasErrors():
	case f.diff:
		fmt.Fprint(a.Stdout, udiff.Unified(name, name, string(text), string(out)))
	case !f.check:
		if _, err := a.Stdout.Write(out); err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
	}
	return a.formatted(f, ds, changed)
}

// filesToFormat resolves the arguments. It skips lock files, which have their own format.
func (a *app) filesToFormat(home string, args []string, recursive bool) ([]string, error) {
	var out []string
	if len(args) == 0 {
		candidates := []string{filepath.Join(home, "gantry.hcl")}
		project, err := config.FindProject(a.Dir, home)
		if err != nil {
			return nil, err
		}
		if project != nil {
			candidates = append(candidates, filepath.Join(project.Dir, ".gantry", "gantry.hcl"))
		}
		for _, path := range candidates {
			if console.Exists(path) {
				out = append(out, path)
			}
		}
		if len(out) == 0 {
			return nil, hint.New("no configuration file to format", "specify one, or create one with `gantry init`")
		}
		return out, nil
	}
	for _, arg := range args {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.Dir, path)
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, hint.With(fmt.Errorf("format %s: %w", arg, console.Missing(err, path)), "specify a file, a folder, or - for standard input")
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && p != path && !recursive:
				return fs.SkipDir
			case d.Type().IsRegular() && filepath.Ext(p) == ".hcl" && d.Name() != lock.FileName:
				out = append(out, p)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("format %s: %w", arg, err)
		}
	}
	return out, nil
}

// replaceLayout writes a reformatted file. The meaning is unchanged, so a trusted project stays trusted.
func (a *app) replaceLayout(ctx context.Context, home, path string, before, after []byte) error {
	project, err := config.FindProject(filepath.Dir(path), home)
	if err != nil {
		return err
	}
	err = edit.Update(ctx, path, 0o600, func(old []byte) ([]byte, error) {
		if !bytes.Equal(old, before) {
			return nil, hint.With(fmt.Errorf("%s has changed in the meantime", path), "run the command again")
		}
		return after, nil
	})
	if err != nil || project == nil || filepath.Dir(path) != filepath.Join(project.Dir, ".gantry") {
		return err
	}
	return trust.Open(home).Renew(ctx, project.Dir, project.Digest, project.DigestWith(map[string][]byte{filepath.Base(path): after}))
}
