// Command webpage builds the web page: it bundles the sources in web/ with what they import from web/node_modules, compresses the files,
// and writes them to host/internal/web/dist, which is embedded in gantry.
//
// Usage: webpage ROOT, with the root of the repository.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: webpage ROOT")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "webpage:", err)
		os.Exit(1)
	}
}

// write replaces the built files.
func write(root string) error {
	files, err := build(root)
	if err != nil {
		return err
	}
	sums, err := sources(root)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "host/internal/web/dist")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	total := 0
	for name, content := range files {
		z, err := compress(content)
		if err != nil {
			return err
		}
		total += len(z)
		fmt.Printf("%-28s %7d bytes, %6d compressed\n", name, len(content), len(z))
		if err := os.WriteFile(filepath.Join(dir, name+".gz"), z, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%d bytes compressed\n", total)
	return os.WriteFile(filepath.Join(dir, "sources.sum"), sums, 0o644)
}

// build returns the files of the page by name.
func build(root string) (map[string][]byte, error) {
	web, err := filepath.Abs(filepath.Join(root, "web"))
	if err != nil {
		return nil, err
	}
	r := api.Build(api.BuildOptions{
		AbsWorkingDir: web,
		EntryPoints:   []string{"src/main.tsx"},
		Outdir:        "out",
		Bundle:        true, Splitting: true, Format: api.FormatESModule, Target: api.ES2022, Platform: api.PlatformBrowser, Charset: api.CharsetUTF8,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]", AssetNames: "[name]-[hash]",
		Loader:        map[string]api.Loader{".svg": api.LoaderFile},
		LegalComments: api.LegalCommentsNone, // licenses.txt has the licences
		Metafile:      true,
	})
	if len(r.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(r.Errors, api.FormatMessagesOptions{}), "\n"))
	}
	files := map[string][]byte{}
	script, style := "", ""
	for _, f := range r.OutputFiles {
		name := filepath.Base(f.Path)
		files[name] = f.Contents
		switch {
		case strings.HasPrefix(name, "main-") && strings.HasSuffix(name, ".js"):
			script = name
		case strings.HasPrefix(name, "main-") && strings.HasSuffix(name, ".css"):
			style = name
		}
	}
	page, err := os.ReadFile(filepath.Join(web, "index.html"))
	if err != nil {
		return nil, err
	}
	files["index.html"] = []byte(strings.NewReplacer("SCRIPT", "/"+script, "STYLE", "/"+style).Replace(string(page)))
	files["licenses.txt"], err = licenses(web, r.Metafile)
	return files, err
}

// licenses returns the licences of the packages that a bundle contains.
func licenses(web, metafile string) ([]byte, error) {
	var meta struct{ Inputs map[string]struct{} }
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	packages := map[string]bool{}
	for input := range meta.Inputs {
		rest, ok := strings.CutPrefix(input, "node_modules/")
		if !ok {
			continue
		}
		parts := strings.SplitN(rest, "/", 3)
		if strings.HasPrefix(rest, "@") {
			packages[parts[0]+"/"+parts[1]] = true
		} else {
			packages[parts[0]] = true
		}
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		found, err := filepath.Glob(filepath.Join(web, "node_modules", name, "LICENSE*"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no licence", name)
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "== %s ==\n\n%s\n\n", name, bytes.TrimSpace(text))
	}
	return out.Bytes(), nil
}

// sources returns the digests of what the page is built from, as sha256sum writes them.
func sources(root string) ([]byte, error) {
	var out bytes.Buffer
	add := func(path string) error {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(b)
		_, err = fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), path)
		return err
	}
	err := filepath.WalkDir(filepath.Join(root, "web/src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return add(filepath.ToSlash(rel))
	})
	for _, path := range []string{"web/index.html", "web/package-lock.json", "tools/webpage/main.go"} {
		err = errors.Join(err, add(path))
	}
	return out.Bytes(), err
}

// compress is the same for the same content.
func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
