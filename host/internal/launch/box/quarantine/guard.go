package quarantine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/host/internal/launch"
	"github.com/gantry-agent/gantry/host/internal/launch/box/autorun"
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
	"github.com/gantry-agent/gantry/host/internal/launch/box/recovery"
	"github.com/gantry-agent/gantry/host/internal/launch/box/tree"
)

// What a process in a box makes and others would execute is judged when the process ends, before anything runs outside of a box while it
// does, and as soon as it appears once its call has ended: what was not there before the oldest process that still runs there began is
// moved aside. While a call lasts nothing is moved that nothing else could execute: the tests of a program that works with repositories
// make some, and need them.

const (
	// maxStrikes is after how many times what a session makes is moved aside nothing runs outside of a box any more while it does.
	maxStrikes = 2
	// maxMoves is after how many parts that were moved aside it is ended.
	maxMoves = 100
	// quietTime is how long folders rest before what has changed in them is read, while nobody waits for that.
	quietTime = 200 * time.Millisecond
	// lockLinger is how long the mark that commands run stays after the last has ended: the next is likely to come.
	lockLinger = 2 * time.Second
	// expectedLinger is the same for a command that is expected: as long as a box waits for it.
	expectedLinger = 30 * time.Second
)

// Command is a process in a box that may write, with all that it starts.
type Command struct {
	Owner      launch.Owner
	Argv       []string
	End        func() // ends it
	Roots      []string
	Opened     []string
	Sealed     map[string]fspath.Identity
	Missing    []string
	Denied     Denied
	GrantRoots []string // the roots as the grant names them

	background bool // its call has ended
	strikes    int  // how often something was moved aside that it may have made since then
	moved      int  // how many parts
}

// Name is for messages.
func (g *Command) Name() string {
	text := strings.Join(g.Argv, " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// rootState is a root in which guests work.
type rootState struct {
	known      map[fspath.Identity]bool // the parts that were there before the oldest of them; nil: nobody works there, and all was judged
	named      map[string]string        // what git's settings named then
	denied     Denied                   // what those that work there were denied
	grantRoots []string                 // the roots that they have, as grants name them
	began      time.Time
	lock       *recovery.Lock // that somebody works there, for the next gantry; nil: there is none
	// record is what the mark says.
	record recovery.Record
	anchor *anchor // the folder itself, while somebody works there; nil: its path is all that counts

	lockUntil    time.Time                  // how long the mark stays when nobody works there
	recorded     map[fspath.Identity]bool   // the parts that the mark names
	digests      map[fspath.Identity]string // of those
	unlockTimer  *time.Timer                // takes the mark away
	refreshTimer *time.Timer                // has what has changed read
}

// forget ends what is known of a root in which nobody works any more.
func (at *rootState) forget() {
	at.known = nil
	if at.anchor != nil {
		at.anchor.close()
		at.anchor = nil
	}
}

// end takes back what a ground leaves on disk, and stops what is to come.
func (at *rootState) end() {
	for _, t := range []*time.Timer{at.unlockTimer, at.refreshTimer} {
		if t != nil {
			t.Stop()
		}
	}
	at.forget()
	if at.lock != nil {
		at.lock.Remove()
		at.lock = nil
	}
}

// Config are what guests are made with.
type Config struct {
	Home     string   // gantry's own folder; empty: nothing is kept on disk
	UserHome string   // the user's
	Environ  []string // the user's environment
	Moved    func(launch.Owner, []Moved, error)
}

// New returns none.
func New(o Config) *Guard {
	h := &Guard{moved: o.Moved, records: &recovery.Records{}, states: map[string]*rootState{}, closing: make(chan struct{})}
	h.Index = &autorun.Index{UserHome: o.UserHome, References: autorun.NewReferences(o.UserHome, o.Environ), OnChange: h.changed, InUse: h.replaced}
	if o.Home != "" {
		h.Index.CacheDir = filepath.Join(o.Home, "cache", ".trees") // no plugin has such a name
		h.records.Dir = filepath.Join(o.Home, "locks", "running")
	}
	return h
}

// HeldFile is what launchers keep open until nothing of their tree is left: a descriptor of its own, which the caller closes. nil: there is none.
func (h *Guard) HeldFile() *os.File { return h.records.HeldFile() }

// Guard are all of a box's, and what is known of the roots in which they work.
type Guard struct {
	// Index finds what is executed later in the roots.
	Index     *autorun.Index
	leftovers leftovers
	records   *recovery.Records
	moved     func(launch.Owner, []Moved, error)

	mu       sync.Mutex
	commands []*Command // in the order in which they came
	states   map[string]*rootState
	closed   bool
	pipes    []*os.File // of gantries that were killed

	closing  chan struct{}  // closed with closed
	adopters sync.WaitGroup // who waits for those
}

// notice is what has to be said once the lock is given back.
type notice struct {
	owner launch.Owner
	moved []Moved
	err   error
}

func (h *Guard) notify(words ...notice) {
	for _, w := range words {
		if h.moved != nil && (len(w.moved) > 0 || w.err != nil) {
			h.moved(w.owner, w.moved, w.err)
		}
	}
}

// state returns that of a root; the caller holds h.mu.
func (h *Guard) state(root string) *rootState {
	g := h.states[root]
	if g == nil {
		g = &rootState{}
		h.states[root] = g
	}
	return g
}

// commandsIn are the guests that work in a root.
func (h *Guard) commandsIn(root string) []*Command {
	return slices.DeleteFunc(slices.Clone(h.commands), func(g *Command) bool { return !slices.Contains(fspath.Outermost(g.Roots), root) })
}

// Attempts are how often folders are looked through that are moved about meanwhile.
const Attempts = 4

// Enter makes g a guest and returns the parts that are there now. What is there and nobody has worked in is the user's own.
func (h *Guard) Enter(g *Command) (*autorun.Found, error) {
	h.mu.Lock()
	found, words, err := h.admit(g)
	h.mu.Unlock()
	h.notify(words...)
	return found, err
}

func (h *Guard) admit(g *Command) (found *autorun.Found, words []notice, err error) {
	if h.closed {
		return nil, nil, autorun.ErrClosed
	}
	h.followRenames()
	outer := fspath.Outermost(g.Roots)
	for _, root := range outer {
		w, err := h.recover(root, g.Owner)
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		if len(h.commandsIn(root)) > 0 || h.state(root).known == nil {
			continue
		}
		w, err = h.judgeUntilSure(g.Owner, []string{root}) // it could not be judged when the last had ended
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		h.state(root).forget()
	}
	if found, err = h.remember(g.Roots, g.Sealed); err != nil {
		h.release(outer)
		return nil, words, err
	}
	for _, root := range outer {
		at := h.state(root)
		maps.Copy(at.denied, g.Denied)
		at.grantRoots = append(at.grantRoots, slices.DeleteFunc(slices.Clone(g.GrantRoots), func(r string) bool { return slices.Contains(at.grantRoots, r) })...)
	}
	h.commands = append(h.commands, g)
	return found, words, nil
}

// remember takes what is there for the user's own, in roots in which nobody works, and marks them. It returns what is there.
func (h *Guard) remember(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	outer := fspath.Outermost(roots)
	if !slices.ContainsFunc(outer, func(r string) bool { return h.state(r).known == nil }) {
		return h.Index.Find(roots, whole, nil)
	}
	all, err := h.Index.Find(roots, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, root := range outer {
		at := h.state(root)
		if at.known != nil {
			continue
		}
		known := map[fspath.Identity]bool{}
		for _, p := range all.Files {
			if p.Root == root {
				known[p.ID] = true
			}
		}
		if err := h.record(root, all, known); err != nil {
			return nil, err
		}
		at.forget()
		at.anchor = anchorAt(root)
		at.known, at.named, at.denied, at.grantRoots, at.began = known, all.Named, Denied{}, nil, time.Now()
	}
	return h.Index.FindAgain(roots, whole)
}

// Expect is what enter would return, for a box that waits for its process. The mark that somebody works there is written meanwhile.
func (h *Guard) Expect(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, autorun.ErrClosed
	}
	h.followRenames()
	fresh := slices.DeleteFunc(fspath.Outermost(roots), func(r string) bool { return h.state(r).known != nil })
	found, err := h.remember(roots, whole)
	for _, root := range fresh { // nobody works there yet
		h.state(root).forget()
		h.removeLockLater(root, expectedLinger)
	}
	return found, err
}

// Look is what enter has returned, as it is now.
func (h *Guard) Look(roots []string, whole map[string]fspath.Identity) (*autorun.Found, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Index.Find(roots, whole, nil)
}

// Withdraw takes back a guest that never came.
func (h *Guard) Withdraw(g *Command) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = slices.DeleteFunc(h.commands, func(x *Command) bool { return x == g })
	h.release(fspath.Outermost(g.Roots))
}

// Leave is the end of a guest. What it has made is judged; more is what else there is to say of it.
func (h *Guard) Leave(g *Command, more func() []Moved) (sure bool) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	words, unsure, err := h.judge(g.Owner, h.related(g.Roots))
	if err != nil {
		words = append(words, notice{owner: g.Owner, err: err})
	} else {
		h.allowOpened(g)
	}
	h.commands = slices.DeleteFunc(h.commands, func(x *Command) bool { return x == g })
	if sure = err == nil && unsure == nil; sure {
		h.release(fspath.Outermost(g.Roots))
	}
	h.mu.Unlock()
	if more != nil {
		if later := more(); len(words) > 0 {
			words[0].moved = append(words[0].moved, later...)
		} else {
			words = []notice{{owner: g.Owner, moved: later}}
		}
	}
	h.notify(words...)
	h.Index.Trim(h.idle)
	return sure
}

// allowOpened makes what was opened for a guest, and is there now, a part that others may find.
func (h *Guard) allowOpened(g *Command) {
	if len(g.Opened) == 0 || len(h.commands) < 2 {
		return
	}
	all, err := h.Index.Find(g.Roots, nil, nil)
	if err != nil {
		return // then it is judged with the others
	}
	for _, p := range all.Files {
		if at := h.states[p.Root]; at != nil && at.known != nil && (fspath.ContainsOpened(p.AbsPath(), g.Opened) || fspath.BelowAny(p.AbsPath(), g.Opened)) {
			at.known[p.ID] = true
		}
	}
}

// release forgets what was known of roots in which nobody works any more.
func (h *Guard) release(roots []string) {
	for _, root := range roots {
		at := h.states[root]
		if at == nil || len(h.commandsIn(root)) > 0 {
			continue
		}
		at.forget()
		h.removeLockLater(root, lockLinger)
	}
}

// removeLockLater has the mark of a root taken away after a time, if nobody works there then.
func (h *Guard) removeLockLater(root string, after time.Duration) {
	at := h.state(root)
	if at.lock == nil || h.closed {
		return
	}
	if until := time.Now().Add(after); until.After(at.lockUntil) {
		at.lockUntil = until
	}
	if at.unlockTimer != nil {
		at.unlockTimer.Stop()
	}
	at.unlockTimer = time.AfterFunc(time.Until(at.lockUntil), func() { h.removeLock(root) })
}

// removeLock takes the mark of a root away in which nobody works any more.
func (h *Guard) removeLock(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.states[root]; at != nil && at.known == nil && at.lock != nil {
		at.lock.Remove()
		at.lock = nil
	}
}

// related are the roots of all that work in one of these, or in one of theirs.
func (h *Guard) related(roots []string) []string {
	out := fspath.Outermost(roots)
	for n := -1; n != len(out); {
		n = len(out)
		for _, g := range h.commands {
			own := fspath.Outermost(g.Roots)
			if slices.ContainsFunc(own, func(r string) bool { return slices.Contains(out, r) }) {
				for _, r := range own {
					if !slices.Contains(out, r) {
						out = append(out, r)
					}
				}
			}
		}
	}
	return out
}

// judgeUntilSure judges until it is certain that nothing was overlooked.
func (h *Guard) judgeUntilSure(owner launch.Owner, roots []string) (words []notice, err error) {
	for range Attempts {
		w, unsure, failed := h.judge(owner, roots)
		words = append(words, w...)
		if err = errors.Join(unsure, failed); failed != nil || unsure == nil {
			break
		}
	}
	return words, err
}

// judge moves aside what was not there before the oldest guest of these roots. unsure says why something may have been
// overlooked. The caller holds h.mu, and says the words later.
func (h *Guard) judge(owner launch.Owner, outer []string) (words []notice, unsure, err error) {
	for range Attempts {
		moved := h.followRenames()
		for i, root := range outer {
			outer[i] = cmp.Or(moved[root], root)
		}
		if words, unsure, err = h.judgeIn(owner, outer); !errors.Is(err, tree.ErrGone) {
			break
		}
	}
	return words, unsure, err
}

func (h *Guard) judgeIn(owner launch.Owner, outer []string) (words []notice, unsure, err error) {
	var roots, opened, missing, asked []string
	var whole map[string]fspath.Identity
	was, before := baseline{known: map[fspath.Identity]bool{}, began: time.Now(), denied: Denied{}}, &autorun.Found{Named: map[string]string{}}
	for _, root := range outer {
		if at := h.states[root]; at != nil && at.known != nil && fspath.IsDir(root) { // who has removed it has left nothing in it
			roots, asked = append(roots, root), append(asked, at.grantRoots...)
			maps.Copy(was.known, at.known)
			maps.Copy(was.denied, at.denied)
			maps.Copy(before.Named, at.named)
			if at.began.Before(was.began) {
				was.began = at.began
			}
		}
	}
	if len(roots) == 0 {
		return nil, nil, nil
	}
	var all []*Command
	for _, g := range h.commands {
		if !slices.ContainsFunc(fspath.Outermost(g.Roots), func(r string) bool { return slices.Contains(outer, r) }) {
			continue
		}
		for _, r := range g.Roots {
			if !slices.Contains(roots, r) && fspath.IsDir(r) {
				roots = append(roots, r)
			}
		}
		opened, missing = append(opened, g.Opened...), append(missing, g.Missing...)
		if len(all) == 0 {
			whole = maps.Clone(g.Sealed)
		}
		maps.DeleteFunc(whole, func(path string, id fspath.Identity) bool { return g.Sealed[path] != id })
		all = append(all, g)
	}
	after, moved, err := h.quarantineNew(was, opened, func() (*autorun.Found, error) {
		after, err := h.Index.Find(roots, whole, was.known)
		if err == nil {
			after.DropOlder(was.began, before)
			after.Files = append(after.Files, slices.Concat(autorun.Appeared(missing, roots), autorun.LinksToRoots(asked, roots))...)
		}
		return after, err
	})
	if after == nil {
		return nil, nil, err
	}
	if len(moved) > 0 || err != nil {
		words = append(words, notice{owner: owner, moved: moved, err: err})
		words = append(words, addStrikes(all, len(moved))...)
	}
	if unsure = after.Err; unsure == nil && after.Moved {
		unsure = errors.New("folders are being moved all the time, so that what is executed later can't be looked for; end what moves them")
	}
	return words, unsure, nil
}

// quarantineNew moves aside what look finds and was not known. Folders that were moved are looked through in turn: under their old names nothing
// in them was.
func (h *Guard) quarantineNew(was baseline, opened []string, look func() (*autorun.Found, error)) (after *autorun.Found, moved []Moved, err error) {
	for range Attempts {
		if after, err = look(); err != nil {
			return nil, moved, err
		}
		some, stuck, again, err := quarantine(was, opened, after)
		h.leftovers.add(stuck) // which refuses whatever comes next
		moved = append(moved, some...)
		if err != nil || !again && !slices.ContainsFunc(some, func(m Moved) bool { return m.To != "" && fspath.IsDir(m.To) }) {
			return after, moved, err
		}
	}
	after.Moved = true
	return after, moved, nil
}

// addStrikes holds what was moved aside against those who may have made it: sessions, while no call is under way.
func addStrikes(all []*Command, moves int) (words []notice) {
	if moves == 0 || slices.ContainsFunc(all, func(g *Command) bool { return !g.background }) {
		return nil
	}
	for _, g := range all {
		g.strikes++
		if g.moved += moves; g.moved >= maxMoves && g.End != nil {
			g.End()
			g.End = nil
			words = append(words, notice{owner: g.Owner, err: fmt.Errorf("the session %s was ended: %d times it has made what is executed later, and that was moved aside", g.Name(), g.moved)})
		}
	}
	return words
}

// Clear deals with what could not be moved aside before.
func (h *Guard) Clear(owner launch.Owner) error {
	moved, err := h.leftovers.retry()
	h.notify(notice{owner: owner, moved: moved})
	return err
}

// Settle deals with what commands have made until now, before something runs outside of a box. An error says why nothing may.
func (h *Guard) Settle(owner launch.Owner) error {
	if err := h.Clear(owner); err != nil {
		return err
	}
	if err := h.judgeAll(owner); err != nil {
		return err
	}
	return h.Clear(owner)
}

func (h *Guard) judgeAll(owner launch.Owner) error {
	h.mu.Lock()
	var words []notice
	var err error
	h.followRenames()
	for _, root := range slices.Sorted(maps.Keys(h.states)) {
		if at := h.states[root]; at == nil || at.known == nil {
			continue
		}
		of := owner
		if on := h.commandsIn(root); len(on) > 0 {
			of = on[0].Owner
		}
		w, failed := h.judgeUntilSure(of, h.related([]string{root}))
		words, err = append(words, w...), errors.Join(err, failed)
	}
	for _, g := range h.commands {
		if err == nil && g.strikes >= maxStrikes {
			err = fmt.Errorf("the session %s makes again what is executed later and was moved aside; nothing runs outside of the sandbox while it does: end that session first", g.Name())
		}
	}
	h.mu.Unlock()
	h.notify(words...)
	return err
}

// RemoveLink moves aside a link on the way to a writable root, if commands have made it.
func (h *Guard) RemoveLink(owner launch.Owner, link string) bool {
	h.mu.Lock()
	began, found := time.Time{}, ""
	for root, at := range h.states {
		if at.known != nil && fspath.Below(link, root) && (found == "" || at.began.Before(began)) {
			began, found = at.began, root
		}
	}
	if found == "" {
		list, _ := h.records.Orphans(link)
		for _, o := range list {
			if fspath.Below(link, o.Root) && (found == "" || o.Began.Before(began)) {
				began, found = o.Began, o.Root
			}
			o.Lock.Close()
		}
	}
	id, _, ok := fspath.Lstat(link)
	was := baseline{began: began}
	if found == "" || !ok || was.before(id.Changed) {
		h.mu.Unlock()
		return false
	}
	rel, _ := filepath.Rel(found, link)
	moved, stuck, _, err := quarantine(was, nil, &autorun.Found{Roots: []string{found}, Files: []autorun.File{{Root: found, Path: rel, Kind: autorun.KindRootLink, ID: id}}})
	h.leftovers.add(stuck)
	h.mu.Unlock()
	h.notify(notice{owner: owner, moved: moved, err: err})
	return len(moved) > 0
}

// Outlived says that a call has ended, of which guests may still run.
func (h *Guard) Outlived(owner launch.Owner) {
	h.mu.Lock()
	var roots []string
	for _, g := range h.commands {
		if g.Owner == owner && !g.background {
			g.background, roots = true, append(roots, g.Roots...)
		}
	}
	h.mu.Unlock()
	for _, root := range fspath.Outermost(roots) {
		h.judgeNow(root)
	}
}

// judgeNow judges at once, unless a call is under way.
func (h *Guard) judgeNow(root string) {
	h.mu.Lock()
	var words []notice
	if to, ok := h.followRenames()[root]; ok {
		root = to
	}
	if on := h.commandsIn(root); len(on) > 0 && !slices.ContainsFunc(on, func(g *Command) bool { return !g.background }) {
		var err error
		if words, _, err = h.judge(on[0].Owner, h.related([]string{root})); err != nil {
			words = append(words, notice{owner: on[0].Owner, err: err})
		}
	}
	h.mu.Unlock()
	h.notify(words...)
}

// changed hears that something has changed in a root.
func (h *Guard) changed(root string) {
	h.mu.Lock()
	busy := len(h.commandsIn(root)) > 0
	if at := h.state(root); !busy && !h.closed { // it is read when that is over
		if at.refreshTimer == nil {
			at.refreshTimer = time.AfterFunc(quietTime, func() { h.refresh(root) })
		} else {
			at.refreshTimer.Reset(quietTime)
		}
	}
	h.mu.Unlock()
	if busy {
		h.judgeNow(root)
	}
}

// replaced reports whether guests work in a folder that is not at its path any more; the caller holds h.mu.
func (h *Guard) replaced(root string) bool {
	at := h.states[root]
	return at != nil && at.known != nil && at.anchor != nil && !at.anchor.is(root)
}

// refresh has what has changed in a root read while nobody waits for it.
func (h *Guard) refresh(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.commandsIn(root)) == 0 && !h.closed {
		_, _, _ = h.Index.Settle(root) // who needs it hears of the error
	}
}

// idle reports whether nobody works in a root.
func (h *Guard) idle(root string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.states[root]
	return (at == nil || at.known == nil) && len(h.commandsIn(root)) == 0
}

// Close is the end of this gantry.
func (h *Guard) Close() {
	h.mu.Lock()
	h.closed = true
	for _, at := range h.states {
		for _, t := range []*time.Timer{at.unlockTimer, at.refreshTimer} {
			if t != nil {
				t.Stop()
			}
		}
		left := at.known != nil
		at.forget()
		if at.lock == nil {
			continue
		}
		if !left {
			at.lock.Remove()
		} else {
			at.lock.Release() // the next one judges what is there
		}
		at.lock = nil
	}
	select {
	case <-h.closing:
	default:
		close(h.closing)
	}
	recovery.CloseAll(h.pipes) // which ends the waiting for them
	h.mu.Unlock()
	h.adopters.Wait()
	h.Index.Close()
	h.records.Drop()
}

// Abandon ends as a process does that is killed: nothing is judged any more, and its locks are gone. It is for tests.
func (h *Guard) Abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = nil
	for _, at := range h.states {
		if at.lock != nil {
			at.lock.Release()
		}
		at.lock = nil
		at.forget()
	}
	h.records.Abandon()
}

// WaitAdopted waits until nothing is left of gantries that were killed. It is for tests.
func (h *Guard) WaitAdopted() { h.adopters.Wait() }
