package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/config/version"
	"github.com/spf13/cobra"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

//go:embed template
var templates embed.FS

// sdkModule is what a plugin imports of gantry, and all of it.
const sdkModule = "github.com/gantry-agent/gantry/sdk"

type newFlags struct{ sdk, dir, module string }

func (a *app) pluginNew() *cobra.Command {
	var f newFlags
	cmd := &cobra.Command{
		Use: "new [flags] NAME", Short: "Create a tool plugin in Go", Args: takes(1, 1, "NAME"),
		Long: "new creates a Go module for a plugin that passes the conformance kit. Its go.mod requires the SDK of this gantry's version;\n" +
			"with --sdk, or if gantry runs from its own source tree, it uses the SDK in that folder and needs no network.",
		RunE: func(_ *cobra.Command, args []string) error { return a.newPlugin(args[0], f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.sdk, "sdk", "", "use the SDK source in `PATH`")
	fs.StringVar(&f.dir, "dir", "", "create the module in `DIR` (default: a new folder NAME)")
	fs.StringVar(&f.module, "module", "", "module `PATH` of the plugin (default: example.com/NAME)")
	return cmd
}

// newModule is what the templates are filled with.
type newModule struct {
	Name  string // of the plugin
	Ident string // of its tool
	GoMod []byte
	GoSum []byte
}

func (a *app) newPlugin(name string, f newFlags) error {
	if err := checkPluginName(name); err != nil {
		return err
	}
	dir := f.dir
	if dir == "" {
		dir = name
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.dir, dir)
	}
	if err := checkEmpty(dir); err != nil {
		return err
	}
	m := newModule{Name: name, Ident: strings.ReplaceAll(name, "-", "_")}
	path := f.module
	if path == "" {
		path = "example.com/" + name
	}
	if err := module.CheckPath(path); err != nil {
		return usage("--module: %w", err)
	}
	offline, err := m.dependencies(a, path, dir, f.sdk)
	if err != nil {
		return err
	}
	if err := m.write(dir); err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, dir)
	a.nextAfterNew(dir, name, offline)
	return nil
}

func checkPluginName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if !ok {
		return usageError{fmt.Sprintf("%q can't be the name of a plugin", name), "use 1 to 64 lower-case letters, digits and dashes, a letter first"}
	}
	return nil
}

// checkEmpty refuses to write where something is.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return hint.With(fmt.Errorf("a plugin can't be written into %s: %w", dir, pathReason(err)), "choose another folder with --dir")
	}
	if len(entries) > 0 {
		return hint.With(fmt.Errorf("%s is not empty; nothing was changed", dir), "choose another folder with --dir")
	}
	return nil
}

// dependencies makes go.mod and go.sum. With the SDK's source at hand they are complete, so that building needs nothing
// but what the SDK itself was built with.
func (m *newModule) dependencies(a *app, path, dir, sdk string) (offline bool, err error) {
	mod := new(modfile.File)
	if err := mod.AddModuleStmt(path); err != nil {
		return false, err
	}
	given := sdk
	if sdk == "" {
		sdk = besideSDK()
	}
	if sdk == "" {
		v, err := version.Parse(strings.SplitN(a.version, "+", 2)[0])
		if err != nil {
			return false, hint.With(fmt.Errorf("this gantry (%s) was not released, so there is no SDK of its version to download", a.version), "name its source with --sdk")
		}
		if err := errors.Join(mod.AddGoStmt("1.26.0"), mod.AddRequire(sdkModule, "v"+v.String())); err != nil {
			return false, err
		}
		m.GoMod, err = mod.Format()
		return false, err
	}
	if !filepath.IsAbs(sdk) {
		sdk = filepath.Join(a.dir, sdk)
	}
	theirs, err := readSDK(sdk)
	if err != nil {
		return false, err
	}
	if err := errors.Join(mod.AddGoStmt(theirs.Go.Version), mod.AddRequire(sdkModule, "v0.0.0")); err != nil {
		return false, err
	}
	for _, r := range theirs.Require {
		mod.AddNewRequire(r.Mod.Path, r.Mod.Version, true)
	}
	if err := mod.AddReplace(sdkModule, "", replacement(dir, sdk, given), ""); err != nil {
		return false, err
	}
	mod.SetRequireSeparateIndirect(mod.Require)
	mod.Cleanup()
	if m.GoMod, err = mod.Format(); err != nil {
		return false, err
	}
	if m.GoSum, err = os.ReadFile(filepath.Join(sdk, "go.sum")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the SDK: %w", err)
	}
	return true, nil
}

// besideSDK finds the SDK where gantry was built in its own source tree: bin/gantry stands beside sdk.
func besideSDK() string {
	bin, err := binDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(filepath.Dir(bin), "sdk")
	if _, err := readSDK(dir); err != nil {
		return ""
	}
	return dir
}

func readSDK(dir string) (*modfile.File, error) {
	path := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, hint.With(fmt.Errorf("--sdk: %w", reason(err, path)), "name the folder sdk of gantry's source")
	}
	f, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, fmt.Errorf("--sdk: %w", err)
	}
	if f.Module == nil || f.Module.Mod.Path != sdkModule || f.Go == nil {
		return nil, hint.With(fmt.Errorf("--sdk: %s is not the go.mod of %s", path, sdkModule), "name the folder sdk of gantry's source")
	}
	return f, nil
}

// replacement is relative where the user said it so: the two folders move together then.
func replacement(dir, sdk, given string) string {
	if given != "" && !filepath.IsAbs(given) {
		if rel, err := filepath.Rel(dir, sdk); err == nil {
			rel = filepath.ToSlash(rel)
			if !strings.HasPrefix(rel, "../") {
				rel = "./" + rel
			}
			return rel
		}
	}
	return filepath.ToSlash(sdk)
}

// write writes the module's files. Of a half-written module nothing is left.
func (m *newModule) write(dir string) (err error) {
	made := !exists(dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the plugin: %w", err)
	}
	var written []string
	defer func() {
		if err != nil {
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
			if made {
				err = errors.Join(err, os.Remove(dir))
			}
		}
	}()
	put := func(name string, text []byte) error {
		path := filepath.Join(dir, name)
		written = append(written, path)
		return os.WriteFile(path, text, 0o644)
	}
	for _, f := range []struct{ name, from string }{
		{"main.go", "main.go.tmpl"}, {"main_test.go", "main_test.go.tmpl"}, {"README.md", "README.md.tmpl"}, {".gitignore", "gitignore.tmpl"},
	} {
		t, err := template.ParseFS(templates, "template/"+f.from)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := t.Execute(&text, m); err != nil {
			return err
		}
		if err := put(f.name, text.Bytes()); err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
	}
	if err := put("go.mod", m.GoMod); err != nil {
		return fmt.Errorf("write the plugin: %w", err)
	}
	if m.GoSum != nil {
		if err := put("go.sum", m.GoSum); err != nil {
			return fmt.Errorf("write the plugin: %w", err)
		}
	}
	return nil
}

func (a *app) nextAfterNew(dir, name string, offline bool) {
	goCommand := "go"
	if insideWorkspace(dir) {
		goCommand = "GOWORK=off go" // the plugin is no module of the workspace around it
	}
	fmt.Fprintln(a.stderr, "Next:")
	fmt.Fprintf(a.stderr, "  cd %s\n", a.shown(dir))
	if !offline {
		fmt.Fprintf(a.stderr, "  %s mod tidy\n", goCommand)
	}
	if !offline {
		fmt.Fprintln(a.stderr, "  (where the sdk can't be downloaded, write the plugin anew with --sdk PATH, the sdk folder of gantry's source)")
	}
	fmt.Fprintf(a.stderr, "  %s build -o bin/%s . && %s test .\n", goCommand, name, goCommand)
	fmt.Fprintf(a.stderr, "  gantry plugin add ./bin/%s\n", name)
}

func insideWorkspace(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "go.work")) {
			return true
		}
		if filepath.Dir(dir) == dir {
			return false
		}
	}
}
