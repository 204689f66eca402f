package install

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
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

//go:embed template
var templates embed.FS

// sdkModule is the only module of gantry that a plugin imports.
const sdkModule = "github.com/gantry-agent/gantry/sdk"

// NewPlugin is the template of a tool plugin in Go, in a module of its own.
type NewPlugin struct {
	Name    string
	Dir     string // destination folder
	Module  string // empty: example.com/NAME
	SDK     string // folder with the SDK's source; empty: download it, unless gantry runs from its own source tree
	Bin     string // folder of gantry's own programs
	Version string // of gantry
	From    string // a relative SDK is resolved against it
}

// Write writes the module. offline reports whether it builds without network access.
func (n NewPlugin) Write() (offline bool, err error) {
	if err := checkPluginName(n.Name); err != nil {
		return false, err
	}
	if err := checkEmpty(n.Dir); err != nil {
		return false, err
	}
	m := newModule{Name: n.Name, Ident: strings.ReplaceAll(n.Name, "-", "_")}
	path := n.Module
	if path == "" {
		path = "example.com/" + n.Name
	}
	if err := module.CheckPath(path); err != nil {
		return false, &ArgumentError{fmt.Errorf("--module: %w", err)}
	}
	if offline, err = m.dependencies(n, path); err != nil {
		return false, err
	}
	return offline, m.write(n.Dir)
}

// newModule is the data of the templates.
type newModule struct {
	Name  string // of the plugin
	Ident string // of its tool
	GoMod []byte
	GoSum []byte
}

func checkPluginName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] >= 'a' && name[0] <= 'z' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	if !ok {
		return &ArgumentError{hint.New(fmt.Sprintf("invalid plugin name %q", name), "use 1 to 64 lower-case letters, digits and dashes, starting "+
			"with a letter")}
	}
	return nil
}

// checkEmpty returns an error if dir is not empty.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return hint.With(fmt.Errorf("can't create a plugin in %s: %w", dir, withoutPath(err)), "choose another folder with --dir")
	}
	if len(entries) > 0 {
		return hint.With(fmt.Errorf("%s is not empty; nothing was changed", dir), "choose another folder with --dir")
	}
	return nil
}

// dependencies sets go.mod and go.sum. With the SDK's source they are complete, and building only needs the modules that the SDK
// itself was built with.
func (m *newModule) dependencies(n NewPlugin, path string) (offline bool, err error) {
	mod := new(modfile.File)
	if err := mod.AddModuleStmt(path); err != nil {
		return false, err
	}
	sdk := n.SDK
	if sdk == "" {
		sdk = besideSDK(n.Bin)
	}
	if sdk == "" {
		v, err := version.Parse(strings.SplitN(n.Version, "+", 2)[0])
		if err != nil {
			return false, hint.With(fmt.Errorf("this gantry (%s) is not a release, so no SDK of its version can be downloaded", n.Version), "specify its source with --sdk")
		}
		if err := errors.Join(mod.AddGoStmt("1.26.0"), mod.AddRequire(sdkModule, "v"+v.String())); err != nil {
			return false, err
		}
		m.GoMod, err = mod.Format()
		return false, err
	}
	if !filepath.IsAbs(sdk) {
		sdk = filepath.Join(n.From, sdk)
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
	if err := mod.AddReplace(sdkModule, "", replacement(n.Dir, sdk, n.SDK), ""); err != nil {
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

// besideSDK returns the SDK's source folder if gantry was built in its source tree, where bin is next to sdk.
func besideSDK(bin string) string {
	if bin == "" {
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
		return nil, hint.With(fmt.Errorf("--sdk: %w", reason(err, path)), "specify the sdk folder of gantry's source")
	}
	f, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, fmt.Errorf("--sdk: %w", err)
	}
	if f.Module == nil || f.Module.Mod.Path != sdkModule || f.Go == nil {
		return nil, hint.With(fmt.Errorf("--sdk: %s is not the go.mod of %s", path, sdkModule), "specify the sdk folder of gantry's source")
	}
	return f, nil
}

// replacement returns the path for a replace directive. It is relative if the user gave a relative one, so that both folders can
// be moved together.
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

// write writes the module's files. If it fails, it removes them again.
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

// withoutPath removes the file name from an error whose message already contains it.
func withoutPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
