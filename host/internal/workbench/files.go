package workbench

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Limits of the methods for files.
const (
	maxFile    = 64 << 20 // bytes of a file that is read; the response is a third larger
	maxEntries = 100_000  // of a folder that is read
	maxDepth   = 256      // of a folder that is copied
)

// asCommand runs f with no more rights than commands of the sandbox have. Root and others with capabilities could open any file, while
// their commands have no capabilities. Without a sandbox, commands have all rights.
func (b *Bench) asCommand(f func() error) (err error) {
	if !b.confined() {
		return f()
	}
	var failure any
	done := make(chan struct{})
	go func() { // ends before asCommand returns
		defer close(done)
		defer func() { failure = recover() }()
		if err = confineThread(); err == nil {
			err = f()
		}
	}()
	if <-done; failure != nil {
		panic(failure) // it costs the request, not the server
	}
	return err
}

func asCommand[R any](b *Bench, f func() (R, error)) (out R, err error) {
	err = b.asCommand(func() (err error) {
		out, err = f()
		return err
	})
	return out, err
}

// confined reports whether files have to be opened without the process's capabilities.
func (b *Bench) confined() bool {
	return privileged() && slices.ContainsFunc(b.cfg.Workspaces(), func(w *Workspace) bool {
		return !launch.Unconfined{}.Enforces(w.Granter.Files(w.mode(), w.Dir))
	})
}

// FsReadFile implements fs/readFile. It reads regular files up to 64 MiB.
func (b *Bench) FsReadFile(_ context.Context, q protocol.FsReadFileParams) (protocol.FsReadFileResponse, error) {
	return asCommand(b, func() (protocol.FsReadFileResponse, error) { return b.readFile(q) })
}

func (b *Bench) readFile(q protocol.FsReadFileParams) (protocol.FsReadFileResponse, error) {
	p, err := b.find("path", q.Path)
	if err != nil {
		return protocol.FsReadFileResponse{}, err
	}
	defer p.close()
	f, err := p.open(os.O_RDONLY, 0)
	if err != nil {
		return protocol.FsReadFileResponse{}, named(q.Path, err)
	}
	defer f.Close()
	// The size of a file may be unknown, as in /proc, or change.
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return protocol.FsReadFileResponse{}, named(q.Path, err)
	case len(data) > maxFile:
		return protocol.FsReadFileResponse{}, hint.With(rpc.Errorf(rpc.InvalidRequest, "%s is larger than %d MiB", q.Path, maxFile>>20),
			"read parts of it with command/exec")
	}
	return protocol.FsReadFileResponse{DataBase64: base64.StdEncoding.EncodeToString(data)}, nil
}

// target resolves the path of a request for writing. With follow a symbolic link stands for the file that it leads to.
func (b *Bench) target(field, path string, follow bool) (string, rules, error) {
	if err := absolute(field, path); err != nil {
		return "", rules{}, err
	}
	real := fspath.ResolveParent(filepath.Clean(path))
	if info, err := os.Lstat(real); follow && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		to, err := filepath.EvalSymlinks(real)
		if err != nil {
			return "", rules{}, rpc.Errorf(rpc.InvalidRequest, "%s is a symbolic link that leads nowhere", path)
		}
		real = fspath.Spelled(to)
	}
	r := b.cfg.areas().of(real)
	return real, r, r.supported()
}

// FsWriteFile implements fs/writeFile. A file that exists keeps its mode and its other names.
func (b *Bench) FsWriteFile(_ context.Context, q protocol.FsWriteFileParams) error {
	return b.asCommand(func() error { return b.writeFile(q) })
}

func (b *Bench) writeFile(q protocol.FsWriteFileParams) error {
	data, err := base64.StdEncoding.DecodeString(q.DataBase64)
	if err != nil {
		return rpc.Errorf(rpc.InvalidRequest, "dataBase64 is invalid: %s", err)
	}
	real, r, err := b.target("path", q.Path, true)
	if err != nil {
		return err
	}
	if err := r.writable(real, false); err != nil {
		return err
	}
	p, err := locate(real)
	if err != nil {
		return named(q.Path, err)
	}
	defer p.close()
	f, err := p.create(0o666)
	if err != nil {
		return named(q.Path, err)
	}
	_, err = f.Write(data)
	return named(q.Path, errors.Join(err, f.Close()))
}

// create opens a file for writing: a new one, or an existing regular file, which it empties.
func (p place) create(perm fs.FileMode) (*os.File, error) {
	// Neither way follows a symbolic link, or creates a file where one leads.
	f, err := p.open(os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = p.dir.OpenFile(p.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			err = errMoved
		}
		return f, err
	}
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// FsCreateDirectory implements fs/createDirectory.
func (b *Bench) FsCreateDirectory(_ context.Context, q protocol.FsCreateDirectoryParams) error {
	return b.asCommand(func() error { return b.createDirectory(q) })
}

func (b *Bench) createDirectory(q protocol.FsCreateDirectoryParams) error {
	real, r, err := b.target("path", q.Path, true)
	if err != nil {
		return err
	}
	recursive := q.Recursive == nil || *q.Recursive
	if info, err := os.Lstat(real); err == nil && info.IsDir() && recursive {
		return nil
	}
	var missing []string
	at := real
	for ; recursive && !fspath.Exists(filepath.Dir(at)); at = filepath.Dir(at) {
		missing = append(missing, filepath.Base(at))
	}
	missing = append(missing, filepath.Base(at))
	slices.Reverse(missing)
	for i := range missing {
		if err := r.writable(filepath.Join(append([]string{filepath.Dir(at)}, missing[:i+1]...)...), false); err != nil {
			return err
		}
	}
	dir, err := openDir(filepath.Dir(at))
	if err != nil {
		return named(q.Path, err)
	}
	defer func() { dir.Close() }()
	for _, name := range missing {
		if err := dir.Mkdir(name, 0o777); err != nil && !(recursive && errors.Is(err, fs.ErrExist)) {
			return named(q.Path, err)
		}
		next, err := enter(dir, name)
		if err != nil {
			return named(q.Path, err)
		}
		dir.Close()
		dir = next
	}
	return nil
}

// FsGetMetadata implements fs/getMetadata.
func (b *Bench) FsGetMetadata(_ context.Context, q protocol.FsGetMetadataParams) (protocol.FsGetMetadataResponse, error) {
	return asCommand(b, func() (protocol.FsGetMetadataResponse, error) { return b.getMetadata(q) })
}

func (b *Bench) getMetadata(q protocol.FsGetMetadataParams) (protocol.FsGetMetadataResponse, error) {
	out := protocol.FsGetMetadataResponse{}
	if err := absolute("path", q.Path); err != nil {
		return out, err
	}
	if info, err := os.Lstat(q.Path); err == nil {
		out.IsSymlink = info.Mode()&fs.ModeSymlink != 0
	}
	p, err := b.find("path", q.Path)
	if err != nil {
		return protocol.FsGetMetadataResponse{}, err
	}
	defer p.close()
	info, err := p.dir.Lstat(p.name)
	if err != nil {
		return protocol.FsGetMetadataResponse{}, named(q.Path, err)
	}
	out.IsDirectory, out.IsFile = info.IsDir(), info.Mode().IsRegular()
	out.ModifiedAtMs, out.CreatedAtMs = info.ModTime().UnixMilli(), birth(p.dir, p.name, info)
	return out, nil
}

// FsReadDirectory implements fs/readDirectory, for folders of at most 100,000 entries.
func (b *Bench) FsReadDirectory(ctx context.Context, q protocol.FsReadDirectoryParams) (protocol.FsReadDirectoryResponse, error) {
	return asCommand(b, func() (protocol.FsReadDirectoryResponse, error) { return b.readDirectory(ctx, q) })
}

func (b *Bench) readDirectory(ctx context.Context, q protocol.FsReadDirectoryParams) (protocol.FsReadDirectoryResponse, error) {
	out := protocol.FsReadDirectoryResponse{Entries: []protocol.FsReadDirectoryEntry{}}
	p, err := b.find("path", q.Path)
	if err != nil {
		return out, err
	}
	defer p.close()
	f, err := p.open(os.O_RDONLY, fs.ModeDir)
	if err != nil {
		return out, named(q.Path, err)
	}
	defer f.Close()
	for {
		list, err := f.ReadDir(1024)
		if err != nil && err != io.EOF {
			return out, named(q.Path, err)
		}
		for _, e := range list {
			entry := protocol.FsReadDirectoryEntry{FileName: strings.ToValidUTF8(e.Name(), "\uFFFD"), IsDirectory: e.IsDir(), IsFile: e.Type().IsRegular()}
			if e.Type()&fs.ModeSymlink != 0 { // only what it leads to is told, and no more than a command would see
				if info, err := os.Stat(filepath.Join(p.path, e.Name())); err == nil {
					entry.IsDirectory, entry.IsFile = info.IsDir(), info.Mode().IsRegular()
				}
			}
			out.Entries = append(out.Entries, entry)
		}
		switch {
		case len(out.Entries) > maxEntries:
			return protocol.FsReadDirectoryResponse{}, hint.With(rpc.Errorf(rpc.InvalidRequest, "%s has more than %d entries", q.Path, maxEntries), "list parts of it with command/exec")
		case len(list) == 0 || err == io.EOF:
			slices.SortFunc(out.Entries, func(a, b protocol.FsReadDirectoryEntry) int { return strings.Compare(a.FileName, b.FileName) })
			return out, nil
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		}
	}
}

// FsRemove implements fs/remove. Of a symbolic link it removes the link. A folder with something that commands can't remove is not
// touched.
func (b *Bench) FsRemove(ctx context.Context, q protocol.FsRemoveParams) error {
	return b.asCommand(func() error { return b.remove(ctx, q) })
}

func (b *Bench) remove(ctx context.Context, q protocol.FsRemoveParams) error {
	recursive, force := q.Recursive == nil || *q.Recursive, q.Force == nil || *q.Force
	real, r, err := b.target("path", q.Path, false)
	if err != nil {
		return err
	}
	info, err := os.Lstat(real)
	if err == nil {
		err = r.writable(real, info.IsDir())
	} else if err2 := r.writable(real, false); err2 != nil {
		err = err2
	}
	if isMissing(err) && force {
		return nil
	}
	if err != nil {
		return named(q.Path, err)
	}
	p, err := locate(real)
	if err != nil {
		return named(q.Path, err)
	}
	defer p.close()
	if !info.IsDir() || !recursive {
		return named(q.Path, p.dir.Remove(p.name))
	}
	if err := b.cfg.areas().removable(ctx, p); err != nil {
		return named(q.Path, err)
	}
	return named(q.Path, p.dir.RemoveAll(p.name))
}

// removable returns an error if there is something in a folder that commands can't write. Reasons other than names were checked
// already. The folder may contain other workspaces, whose rules apply to what they contain.
func (a *areas) removable(ctx context.Context, p place) error {
	if a.unlimited(p.path) {
		return nil
	}
	return fs.WalkDir(p.dir.FS(), p.name, func(path string, e fs.DirEntry, err error) error {
		switch path = filepath.Join(filepath.Dir(p.path), path); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case a.of(path).hidden(path) || a.of(path).reach(path) != box.AccessWrite:
			return hint.With(rpc.Errorf(rpc.InvalidRequest, "%s can't be removed: commands may not write %s", p.path, path), "remove the rest of it, or remove it yourself")
		}
		return nil
	})
}

// FsCopy implements fs/copy. Symbolic links in a folder are copied as links. Files that exist are replaced, folders merged.
func (b *Bench) FsCopy(ctx context.Context, q protocol.FsCopyParams) error {
	return b.asCommand(func() error { return b.copy(ctx, q) })
}

func (b *Bench) copy(ctx context.Context, q protocol.FsCopyParams) error {
	from, err := b.find("sourcePath", q.SourcePath)
	if err != nil {
		return err
	}
	defer from.close()
	real, r, err := b.target("destinationPath", q.DestinationPath, true)
	if err != nil {
		return err
	}
	info, err := from.dir.Lstat(from.name)
	switch {
	case err != nil:
		return named(q.SourcePath, err)
	case info.IsDir() && !q.Recursive:
		return rpc.Errorf(rpc.InvalidRequest, "sourcePath %s is a folder: set recursive to copy it", q.SourcePath)
	case info.IsDir() && (real == from.path || fspath.Below(real, from.path)):
		return rpc.Errorf(rpc.InvalidRequest, "%s can't be copied into itself", q.SourcePath)
	}
	if err := r.writable(real, false); err != nil {
		return err
	}
	to, err := locate(real)
	if err != nil {
		return named(q.DestinationPath, err)
	}
	defer to.close()
	return copier{ctx, b.cfg.areas()}.copy(from, to, 0)
}

// copier copies a tree. It judges each file of it, by the rules of the workspace that the file is in.
type copier struct {
	ctx context.Context
	at  *areas
}

func (c copier) copy(from, to place, depth int) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if depth > maxDepth {
		return rpc.Errorf(rpc.InvalidRequest, "%s is too deep to be copied", from.path)
	}
	if depth > 0 { // the first one was judged
		if err := errors.Join(c.at.of(from.path).readable(from.path), c.at.of(to.path).writable(to.path, false)); err != nil {
			return firstOf(err)
		}
	}
	info, err := from.dir.Lstat(from.name)
	if err != nil {
		return named(from.path, err)
	}
	switch info.Mode().Type() {
	case 0:
		return c.file(from, to, info.Mode().Perm())
	case fs.ModeDir:
		return c.folder(from, to, info.Mode().Perm(), depth)
	case fs.ModeSymlink:
		link, err := from.dir.Readlink(from.name)
		if err != nil {
			return named(from.path, err)
		}
		return named(to.path, to.dir.Symlink(link, to.name))
	}
	return rpc.Errorf(rpc.Internal, "%s: is neither a file nor a folder", from.path)
}

// firstOf returns the first of joined errors, with its code.
func firstOf(err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		return list.Unwrap()[0]
	}
	return err
}

func (c copier) file(from, to place, perm fs.FileMode) error {
	in, err := from.open(os.O_RDONLY, 0)
	if err != nil {
		return named(from.path, err)
	}
	defer in.Close()
	if there, err := to.dir.Lstat(to.name); err == nil {
		if own, err := in.Stat(); err == nil && os.SameFile(own, there) {
			return rpc.Errorf(rpc.InvalidRequest, "%s and %s are the same file", from.path, to.path)
		}
	}
	out, err := to.create(perm)
	if err != nil {
		return named(to.path, err)
	}
	_, err = io.Copy(out, cancellable{c.ctx, in})
	return named(to.path, errors.Join(err, out.Close()))
}

// cancellable is a reader that ends with a context.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

// Read implements [io.Reader].
func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

func (c copier) folder(from, to place, perm fs.FileMode, depth int) error {
	in, err := enter(from.dir, from.name)
	if err != nil {
		return named(from.path, err)
	}
	defer in.Close()
	if err := to.dir.Mkdir(to.name, perm|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return named(to.path, err)
	}
	out, err := enter(to.dir, to.name)
	if err != nil {
		return named(to.path, err)
	}
	defer out.Close()
	list, err := fs.ReadDir(in.FS(), ".")
	if err != nil {
		return named(from.path, err)
	}
	for _, e := range list {
		next := func(dir *os.Root, at place) place { return place{dir, e.Name(), filepath.Join(at.path, e.Name())} }
		if err := c.copy(next(in, from), next(out, to), depth+1); err != nil {
			return err
		}
	}
	return nil
}
