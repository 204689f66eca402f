//go:build linux || darwin

package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
)

// A tree is stored in a file, so that the next process only has to compare folders. The file is trusted if its checksum is right,
// and its data about a folder if the kernel says that the folder has not changed.

const (
	storeMagic = "gantry tree 2\n"
	// storeLeast is the number of folders from which a file pays off; reading fewer is as fast.
	storeLeast = 500
	// storeMost bounds what is read of a file.
	storeMost = 512 << 20
)

var sums = crc64.MakeTable(crc64.ECMA)

// store writes the tree's file if there is to be one and enough has changed. The caller holds t.op.
func (t *Tree) store() {
	g := t.g
	g.mu.Lock()
	worth := t.cache != "" && t.filled && g.live >= storeLeast && (!t.loaded && t.saved == 0 || g.looks-t.saved > uint64(g.live/50))
	var b []byte
	if worth {
		b = g.encode()
	}
	looks := g.looks
	g.mu.Unlock()
	if worth && writeFile(t.cache, b) == nil { // on failure the next process reads all folders
		g.mu.Lock()
		t.saved = looks
		g.mu.Unlock()
	}
}

// save stores the tree after the background work.
func (t *Tree) save() {
	t.op.Lock()
	defer t.op.Unlock()
	if !t.closing.Load() {
		t.store()
	}
}

// writeFile replaces a file atomically.
func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tree-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// header identifies the root and the rules that a file was written for.
func (g *graph) header() []byte {
	return fmt.Appendf(nil, "%s%q %q\n", storeMagic, g.root, fmt.Sprint(g.rules))
}

func (g *graph) encode() []byte {
	b := g.header()
	b = binary.AppendUvarint(b, uint64(g.live))
	at := make([]int32, len(g.nodes)) // node numbers in the file
	var count int32
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	g.below(0, func(n int32) {
		x := &g.nodes[n]
		at[n] = count
		count++
		if n != 0 {
			b = binary.AppendUvarint(b, uint64(at[x.parent]))
		}
		text(x.name)
		b = binary.AppendUvarint(b, x.id.Dev)
		b = binary.AppendUvarint(b, x.id.Ino)
		changed := x.id.Changed
		if _, again := g.pending[n]; again {
			changed = 0
		}
		b = binary.AppendVarint(b, changed)
		b = binary.AppendUvarint(b, x.entry)
		e := g.noted[n]
		switch {
		case e == nil && !g.isNoted(n):
			b = append(b, x.marks, 0)
			return
		case e == nil:
			b = append(b, x.marks, 1)
			return
		case e.closed:
			b = append(b, x.marks, 3)
		default:
			b = append(b, x.marks, 2)
		}
		for _, names := range [][]string{e.named, e.rights} {
			b = binary.AppendUvarint(b, uint64(len(names)))
			for _, s := range names {
				text(s)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(e.links)))
		for _, l := range e.links {
			b = binary.AppendUvarint(b, l.Ino)
			b = binary.AppendUvarint(b, uint64(l.Count))
			b = binary.AppendUvarint(b, uint64(l.name))
		}
	})
	return binary.BigEndian.AppendUint64(b, crc64.Checksum(b, sums))
}

// load loads the tree's file. It returns false if there is none or it can't be trusted. The caller holds g.mu.
func (t *Tree) load() bool {
	if t.cache == "" {
		return false
	}
	b, err := readFile(t.cache)
	header := t.g.header()
	if err != nil || len(b) < len(header)+8 || !bytes.HasPrefix(b, header) {
		return false
	}
	sum := len(b) - 8
	if binary.BigEndian.Uint64(b[sum:]) != crc64.Checksum(b[:sum], sums) || t.g.decode(b[len(header):sum]) != nil {
		t.g.reset()
		return false
	}
	return true
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > storeMost {
		return nil, errors.Join(err, errStore)
	}
	b := make([]byte, info.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

var errStore = errors.New("not a tree file")

func (g *graph) decode(b []byte) error {
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		n := number()
		if n > uint64(len(b)) {
			bad, b = true, nil
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	octet := func() byte {
		if len(b) == 0 {
			bad = true
			return 0
		}
		v := b[0]
		b = b[1:]
		return v
	}
	texts := func() []string {
		n := number()
		if n > uint64(len(b)) {
			bad = true
			return nil
		}
		var out []string
		for range n {
			out = append(out, text())
		}
		return out
	}
	count := number()
	if count == 0 || count > uint64(len(b)) {
		return errStore
	}
	g.nodes = make([]node, 0, count)
	for i := range int32(count) {
		parent := none
		if i > 0 {
			p := number()
			if p >= uint64(i) {
				return errStore
			}
			parent = int32(p)
		}
		n := g.add(parent, text(), 0)
		x := &g.nodes[n]
		x.id.Dev, x.id.Ino = number(), number()
		v, size := binary.Varint(b)
		if size <= 0 {
			return errStore
		}
		b = b[size:]
		x.id.Changed, x.entry = v, number()
		x.marks = octet()
		switch kind := octet(); kind {
		case 0:
		case 1:
			g.noted[n] = nil
		case 2, 3:
			e := &extra{closed: kind == 3, named: texts(), rights: texts()}
			links := number()
			if links > uint64(len(b)) {
				return errStore
			}
			e.links = make([]Link, 0, min(links, 1<<16))
			for range links {
				e.links = append(e.links, Link{Ino: number(), Count: uint32(number()), name: uint32(number())})
			}
			g.noted[n] = e
		default:
			return errStore
		}
		if bad {
			return errStore
		}
	}
	if len(b) > 0 {
		return errStore
	}
	return nil
}
