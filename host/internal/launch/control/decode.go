package control

import "errors"

// Errors of reading.
var (
	// ErrMalformed: the frame is not valid. The connection can't be used any more.
	ErrMalformed = errors.New("malformed control frame")
	// ErrVersion: the order is of another version.
	ErrVersion = errors.New("control frame of another version")
	// ErrText: instead of a frame there is text, from a gantry-launch that has crashed. Reader.Text reads it.
	ErrText = errors.New("text where a control frame was expected")
	// ErrClosed: the peer has closed the connection between two frames.
	ErrClosed = errors.New("control connection closed")
)

// Frame is a frame that was received.
type Frame struct {
	Kind    Kind
	Payload []byte // valid until the next frame is read
}

// Reader reads frames. Read is like that of io.Reader, except that 0 without an error means the end, as with read(2).
type Reader struct {
	Read func([]byte) (int, error)

	header [headerLen]byte
	buf    []byte
}

// Next reads the next frame.
func (r *Reader) Next() (Frame, error) {
	n, err := r.fill(r.header[:], true)
	if n > 0 && r.header[0] < 0x80 {
		return Frame{}, ErrText
	}
	if err != nil {
		return Frame{}, err
	}
	size := int(r.header[1]) | int(r.header[2])<<8 | int(r.header[3])<<16 | int(r.header[4])<<24
	if size < 0 || size > MaxFrame {
		return Frame{}, ErrMalformed
	}
	if cap(r.buf) < size {
		r.buf = make([]byte, size)
	}
	r.buf = r.buf[:size]
	if _, err := r.fill(r.buf, false); err != nil {
		return Frame{}, err
	}
	return Frame{Kind: Kind(r.header[0]), Payload: r.buf}, nil
}

// Text returns the text after ErrText, at most limit bytes.
func (r *Reader) Text(limit int) string {
	b := make([]byte, limit)
	n := 0
	// The beginning of the text was read as a header; if the text is shorter, zero bytes follow.
	for n < headerLen && n < limit && r.header[n] != 0 {
		b[n] = r.header[n]
		n++
	}
	for n < limit {
		m, err := r.Read(b[n:])
		if m <= 0 || err != nil {
			break
		}
		n += m
	}
	return string(b[:n])
}

// fill reads all of b. It returns ErrClosed if the stream ends before the first byte at a boundary between frames, and ErrMalformed if it
// ends elsewhere.
func (r *Reader) fill(b []byte, boundary bool) (int, error) {
	clear(b)
	n := 0
	for n < len(b) {
		m, _ := r.Read(b[n:]) // an error means the end, whatever the reason
		switch {
		case m > 0:
			n += m
		case n == 0 && boundary:
			return n, ErrClosed
		default:
			return n, ErrMalformed
		}
	}
	return n, nil
}

// cursor takes a payload apart; the first mistake sticks.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uint() uint64 {
	var v uint64
	for i := 0; i < len(c.b) && i < 10; i++ {
		x := c.b[i]
		if i == 9 && x > 1 {
			break
		}
		v |= uint64(x&0x7f) << (7 * i)
		if x < 0x80 {
			c.b = c.b[i+1:]
			return v
		}
	}
	c.bad, c.b = true, nil
	return 0
}

func (c *cursor) uint32() uint32 {
	v := c.uint()
	if v > 1<<32-1 {
		c.bad = true
		return 0
	}
	return uint32(v)
}

func (c *cursor) op() Op {
	v := c.uint()
	if v > 255 {
		return OpUnknown
	}
	return Op(v)
}

func (c *cursor) bool() bool { return c.uint() == 1 }

func (c *cursor) string() string {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	return s
}

// count reads the number of elements that follow. Each takes at least one byte, so that a false count can't cause an allocation larger
// than the frame.
func (c *cursor) count() int {
	n := c.uint()
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return 0
	}
	return int(n)
}

func (c *cursor) strings() []string {
	n := c.count()
	if n == 0 {
		return nil
	}
	ss := make([]string, 0, n)
	for range n {
		ss = append(ss, c.string())
	}
	return ss
}

func (c *cursor) done() error {
	if c.bad || len(c.b) != 0 {
		return ErrMalformed
	}
	return nil
}

func (f Frame) open(k Kind) cursor { return cursor{b: f.Payload, bad: f.Kind != k} }

// Order decodes the frame.
func (f Frame) Order() (*Order, error) {
	c := f.open(KindOrder)
	if v := c.uint(); v != Version && !c.bad {
		return nil, ErrVersion
	}
	o := &Order{Argv: c.strings(), Env: c.strings(), Cwd: c.string(), Path: c.string(), Terminal: c.bool()}
	for range c.count() {
		o.Rlimits = append(o.Rlimits, Rlimit{Resource: c.uint32(), Soft: c.uint(), Hard: c.uint()})
		if c.bad {
			break
		}
	}
	o.Cgroup, o.Groups, o.LifelineGraceMS, o.Reusable = c.string(), c.strings(), c.uint32(), c.bool()
	if c.bool() {
		o.Box = c.box()
	}
	return o, c.done()
}

func (c *cursor) box() *Box {
	b := &Box{Helper: c.string(), Args: c.strings(), Filter: []byte(c.string()), Handled: c.uint(), Scoped: c.uint()}
	for range c.count() {
		b.Rules = append(b.Rules, Rule{Path: c.string(), Access: c.uint(), Dev: c.uint(), Ino: c.uint()})
		if c.bad {
			break
		}
	}
	b.Covers = c.covers()
	b.Hide, b.Show = c.strings(), c.strings()
	b.Listen, b.EmptyDirs = c.bool(), c.string()
	for range c.count() {
		b.Overlays = append(b.Overlays, Overlay{Path: c.string(), File: c.string(), Dev: c.uint(), Ino: c.uint()})
		if c.bad {
			break
		}
	}
	b.Map = c.bool()
	b.UID, b.GID = uint32(c.uint()), uint32(c.uint())
	b.Isolated, b.KernelReadOnly, b.Write = c.bool(), c.bool(), c.strings()
	b.Tmp, b.ShmBytes, b.Gate = c.string(), c.uint(), c.bool()
	return b
}

func (c *cursor) covers() (list []Cover) {
	for range c.count() {
		list = append(list, Cover{Path: c.string(), Dev: c.uint(), Ino: c.uint(), WasDev: c.uint(), WasInode: c.uint(), Folder: c.bool()})
		if c.bad {
			break
		}
	}
	return list
}

// Hide decodes the frame.
func (f Frame) Hide() (Hide, error) {
	c := f.open(KindHide)
	return Hide{Seq: c.uint32(), Covers: c.covers()}, c.done()
}

// Signal decodes the frame.
func (f Frame) Signal() (Signal, error) {
	c := f.open(KindSignal)
	return Signal{Seq: c.uint32(), Number: c.uint32(), Group: c.bool()}, c.done()
}

// Kill decodes the frame.
func (f Frame) Kill() (Kill, error) {
	c := f.open(KindKill)
	return Kill{GraceMS: c.uint32()}, c.done()
}

// Started decodes the frame.
func (f Frame) Started() (Started, error) {
	c := f.open(KindStarted)
	return Started{PID: c.uint32()}, c.done()
}

// Failed decodes the frame.
func (f Frame) Failed() (Failed, error) {
	c := f.open(KindFailed)
	return Failed{Op: c.op(), Errno: c.uint32(), Text: c.string()}, c.done()
}

// Exited decodes the frame.
func (f Frame) Exited() (Exited, error) {
	c := f.open(KindExited)
	return Exited{
		Code: c.uint32(), Signal: c.uint32(), UserMicros: c.uint(), SystemMicros: c.uint(), MaxRSSKiB: c.uint(),
	}, c.done()
}

// Used decodes the frame.
func (f Frame) Used() (Used, error) {
	c := f.open(KindUsed)
	return Used{UserMicros: c.uint(), SystemMicros: c.uint(), MaxRSSKiB: c.uint()}, c.done()
}

// Replied decodes the frame.
func (f Frame) Replied() (Replied, error) {
	c := f.open(KindReplied)
	return Replied{Seq: c.uint32(), Errno: c.uint32()}, c.done()
}

// Left decodes the frame.
func (f Frame) Left() (Left, error) {
	c := f.open(KindLeft)
	return Left{Count: c.uint32()}, c.done()
}

// Prepared decodes the frame.
func (f Frame) Prepared() (Prepared, error) {
	c := f.open(KindPrepared)
	return Prepared{PID: c.uint32()}, c.done()
}

// Free decodes the frame.
func (f Frame) Free() (Free, error) {
	c := f.open(KindFree)
	return Free{}, c.done()
}
