package binary

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Copies are copies of programs that can be executed but not read, one for each path, in a private folder (0700).
//
// Whether other processes may read the memory of a process depends on the files that it executes. If it can read neither the
// program nor its dynamic loader, and their group is not mapped in its user namespace, only root in the initial namespace may.
type Copies struct {
	// Dir is created when it is needed.
	Dir string
	// Records avoid hashing unchanged programs.
	Records Records
}

// Copy is a copy of the program at Path, opened so that it can only be executed. The caller must close it.
type Copy struct {
	*os.File
	Path string // of the program, without symbolic links
	Name string // of the copy
	id   identity
}

// ErrNoCopies is returned by [Copies.Open] if the folder is on a file system that is read-only or mounted noexec.
var ErrNoCopies = errors.New("copies of programs can't be stored or executed")

const executeOnly = 0o100

// Unchanged reports whether the file has not changed since it was opened. Its owner could make it readable.
func (c *Copy) Unchanged() bool {
	info, err := c.Stat()
	if err != nil {
		return false
	}
	id, ok := identify(info)
	return ok && id == c.id && info.Mode().Perm() == executeOnly
}

// Open opens the copy of the program at path. If there is none, or if the program has changed, it creates one.
func (s Copies) Open(path string) (*Copy, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	program, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file but %s", path, kind(info.Mode()))
	}
	sum, err := s.Records.digest(program, info, path)
	if err != nil {
		return nil, err
	}
	c, err := s.find(path, sum)
	if err != nil {
		if c, err = s.findOrMake(path, program, sum); err != nil {
			if errors.Is(err, unix.EROFS) {
				err = ErrNoCopies
			}
			return nil, fmt.Errorf("copy %s: %w", path, err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(c.Fd()), &fs); err != nil || fs.Flags&unix.ST_NOEXEC != 0 {
		return nil, errors.Join(cmp.Or(err, ErrNoCopies), c.Close())
	}
	return c, nil
}

// names returns the names of the copy of a program and of its record.
func (s Copies) names(path string) (program, rec string) {
	sum := sha256.Sum256([]byte(path))
	program = filepath.Join(s.Dir, hex.EncodeToString(sum[:16]))
	return program, program + ".json"
}

// find opens an existing copy of the program with this digest.
func (s Copies) find(path, sum string) (*Copy, error) {
	name, rec := s.names(path)
	b, err := os.ReadFile(rec)
	if err != nil {
		return nil, err
	}
	var known record
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, err
	}
	c, err := openCopy(name, path)
	if err != nil {
		return nil, err
	}
	if c.id != known.identity || known.SHA256 != sum || !c.Unchanged() {
		return nil, errors.Join(errors.New("the copy has changed"), c.Close())
	}
	return c, nil
}

// findOrMake creates a copy. The lock keeps other hosts from replacing a copy that this one has just opened.
func (s Copies) findOrMake(path string, program *os.File, sum string) (*Copy, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(s.Dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if c, err := s.find(path, sum); err == nil {
		return c, nil
	}
	return s.make(path, program, sum)
}

// make creates a copy of the program with this digest.
func (s Copies) make(path string, program *os.File, sum string) (_ *Copy, err error) {
	f, err := os.CreateTemp(s.Dir, ".new-*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), io.NewSectionReader(program, 0, 1<<62))
	if err == nil && hex.EncodeToString(h.Sum(nil)) != sum {
		err = errors.New("the file is being changed")
	}
	// It must be closed before it is executed, because a file that is open for writing can't be.
	if err = errors.Join(err, f.Chmod(executeOnly), f.Close()); err != nil {
		return nil, err
	}
	c, err := openCopy(f.Name(), path)
	if err != nil {
		return nil, err
	}
	name, rec := s.names(path)
	if err = os.Rename(f.Name(), name); err == nil {
		err = c.identify() // renaming changes its ctime
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.Name = name
	// Without a record, the next start has to create the copy again.
	if b, err := json.Marshal(record{c.id, sum}); err == nil {
		_ = WriteFile(rec, b)
	}
	return c, nil
}

func openCopy(name, path string) (*Copy, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	c := &Copy{File: os.NewFile(uintptr(fd), name), Path: path, Name: name}
	if err := c.identify(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Copy) identify() error {
	info, err := c.Stat()
	if err != nil {
		return err
	}
	c.id, _ = identify(info)
	return nil
}

// maxInterpreters is how many nested interpreters the kernel supports.
const maxInterpreters = 5

// Images returns the files that the kernel loads first when it executes the program at path: its dynamic loader, or the program
// itself if it is statically linked. For a script, they are those of its interpreters, including the one that env finds in
// pathList, the value of PATH. Other files have none.
func Images(path, pathList string) (found []string, err error) {
	for range maxInterpreters {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		image, script, err := imageOf(path)
		if err != nil {
			return nil, err
		}
		if image != "" {
			if image, err = filepath.EvalSymlinks(image); err != nil {
				return nil, err
			}
			found = append(found, image)
		}
		if len(script) == 0 {
			break
		}
		if path = script[0]; filepath.Base(path) != "env" {
			continue
		}
		own, err := Images(path, "")
		if err != nil {
			return nil, err
		}
		found = append(found, own...)
		name := slices.IndexFunc(script[1:], func(s string) bool { return !strings.HasPrefix(s, "-") && !strings.Contains(s, "=") })
		if name < 0 {
			break
		}
		if path = search(script[1+name], pathList); path == "" {
			break
		}
		more, err := Images(path, pathList)
		return unique(append(found, more...)), err
	}
	return unique(found), nil
}

func unique(s []string) []string { slices.Sort(s); return slices.Compact(s) }

// search finds a program in the same way as env.
func search(name, pathList string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for dir := range strings.SplitSeq(pathList, ":") {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && executable(info) {
			return p
		}
	}
	return ""
}

// imageOf returns the loader of a program, or its own path if it has none, or the words of a script's first line.
func imageOf(path string) (image string, script []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	head := make([]byte, 256) // the kernel reads no more
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", nil, err
	}
	head = head[:n]
	if rest, ok := bytes.CutPrefix(head, []byte("#!")); ok {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		return "", strings.Fields(string(line)), nil
	}
	if !bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return "", nil, nil
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return path, nil, nil // the kernel may still accept it, since it reads less of the file
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			const longest = 4096
			b, err := io.ReadAll(io.LimitReader(p.Open(), longest))
			loader, _, _ := bytes.Cut(b, []byte{0})
			return string(loader), nil, err
		}
	}
	return path, nil, nil
}
