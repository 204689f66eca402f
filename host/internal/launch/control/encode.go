package control

// MaxFrame limits the size of a frame. The kernel accepts at most a quarter of the stack limit for arguments and environment (2 MiB by
// default, 6 MiB at most), so a larger order could not be executed anyway.
const MaxFrame = 8 << 20

const headerLen = 5

// begin appends the header of a frame. end fills in the length.
func begin(b []byte, k Kind) []byte { return append(b, byte(k), 0, 0, 0, 0) }

func end(b []byte, start int) []byte {
	n := len(b) - start - headerLen
	b[start+1], b[start+2], b[start+3], b[start+4] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	return b
}

func putUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func putString(b []byte, s string) []byte { return append(putUint(b, uint64(len(s))), s...) }

func putStrings(b []byte, ss []string) []byte {
	b = putUint(b, uint64(len(ss)))
	for _, s := range ss {
		b = putString(b, s)
	}
	return b
}

func putBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Append appends the order's frame to b.
func (o *Order) Append(b []byte) []byte {
	n := len(b)
	b = begin(b, KindOrder)
	b = putUint(b, Version)
	b = putStrings(b, o.Argv)
	b = putStrings(b, o.Env)
	b = putString(b, o.Cwd)
	b = putString(b, o.Path)
	b = putBool(b, o.Terminal)
	b = putUint(b, uint64(len(o.Rlimits)))
	for _, r := range o.Rlimits {
		b = putUint(b, uint64(r.Resource))
		b = putUint(b, r.Soft)
		b = putUint(b, r.Hard)
	}
	b = putStrings(putString(b, o.Cgroup), o.Groups)
	b = putUint(b, uint64(o.LifelineGraceMS))
	b = putBool(b, o.Reusable)
	b = putBool(b, o.Box != nil)
	if o.Box != nil {
		b = o.Box.append(b)
	}
	return end(b, n)
}

func (x *Box) append(b []byte) []byte {
	b = putStrings(putString(b, x.Helper), x.Args)
	b = putString(b, string(x.Filter))
	b = putUint(putUint(b, x.Handled), x.Scoped)
	b = putUint(b, uint64(len(x.Rules)))
	for _, r := range x.Rules {
		b = putUint(putUint(putUint(putString(b, r.Path), r.Access), r.Dev), r.Ino)
	}
	b = putCovers(b, x.Covers)
	b = putBool(putStrings(putStrings(b, x.Hide), x.Show), x.Listen)
	b = putUint(putString(b, x.EmptyDirs), uint64(len(x.Overlays)))
	for _, o := range x.Overlays {
		b = putUint(putUint(putString(putString(b, o.Path), o.File), o.Dev), o.Ino)
	}
	b = putUint(putUint(putBool(b, x.Map), uint64(x.UID)), uint64(x.GID))
	b = putStrings(putBool(putBool(b, x.Isolated), x.KernelReadOnly), x.Write)
	return putBool(putUint(putString(b, x.Tmp), x.ShmBytes), x.Gate)
}

func putCovers(b []byte, list []Cover) []byte {
	b = putUint(b, uint64(len(list)))
	for _, c := range list {
		b = putBool(putUint(putUint(putUint(putUint(putString(b, c.Path), c.Dev), c.Ino), c.WasDev), c.WasInode), c.Folder)
	}
	return b
}

// Append appends the frame to b.
func (h Hide) Append(b []byte) []byte {
	return end(putCovers(putUint(begin(b, KindHide), uint64(h.Seq)), h.Covers), len(b))
}

// Append appends the frame to b.
func (s Signal) Append(b []byte) []byte {
	n := len(b)
	b = putUint(begin(b, KindSignal), uint64(s.Seq))
	b = putUint(b, uint64(s.Number))
	return end(putBool(b, s.Group), n)
}

// Append appends the frame to b.
func (k Kill) Append(b []byte) []byte {
	return end(putUint(begin(b, KindKill), uint64(k.GraceMS)), len(b))
}

// Append appends the frame to b.
func (s Started) Append(b []byte) []byte {
	return end(putUint(begin(b, KindStarted), uint64(s.PID)), len(b))
}

// Append appends the frame to b.
func (f Failed) Append(b []byte) []byte {
	return end(putString(putUint(putUint(begin(b, KindFailed), uint64(f.Op)), uint64(f.Errno)), f.Text), len(b))
}

// Append appends the frame to b.
func (e Exited) Append(b []byte) []byte {
	n := len(b)
	b = begin(b, KindExited)
	for _, v := range [...]uint64{uint64(e.Code), uint64(e.Signal), e.UserMicros, e.SystemMicros, e.MaxRSSKiB} {
		b = putUint(b, v)
	}
	return end(b, n)
}

// Append appends the frame to b.
func (u Used) Append(b []byte) []byte {
	n := len(b)
	return end(putUint(putUint(putUint(begin(b, KindUsed), u.UserMicros), u.SystemMicros), u.MaxRSSKiB), n)
}

// Append appends the frame to b.
func (r Replied) Append(b []byte) []byte {
	return end(putUint(putUint(begin(b, KindReplied), uint64(r.Seq)), uint64(r.Errno)), len(b))
}

// Append appends the frame to b.
func (l Left) Append(b []byte) []byte {
	return end(putUint(begin(b, KindLeft), uint64(l.Count)), len(b))
}

// Append appends the frame to b.
func (p Prepared) Append(b []byte) []byte {
	return end(putUint(begin(b, KindPrepared), uint64(p.PID)), len(b))
}

// Append appends the frame to b.
func (Free) Append(b []byte) []byte { return end(begin(b, KindFree), len(b)) }
