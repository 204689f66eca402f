package box

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
	"github.com/gantry-agent/gantry/host/internal/launch/box/fspath"
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
	// lull is how long folders rest before what has changed in them is read, while nobody waits for that.
	lull = 200 * time.Millisecond
	// linger is how long the mark that commands run stays after the last has ended: the next is likely to come.
	linger = 2 * time.Second
	// patience is the same for a command that is expected: as long as a box waits for it.
	patience = 30 * time.Second
)

// guest is a process in a box that may write, with all that it starts.
type guest struct {
	owner   launch.Owner
	argv    []string
	end     func() // ends it
	roots   []string
	opened  []string
	whole   map[string]fspath.Identity
	missing []string
	kept    kept
	asked   []string // the roots as the grant names them

	background bool // its call has ended
	strikes    int  // how often something was moved aside that it may have made since then
	moves      int  // how many parts
}

// name is for messages.
func (g *guest) name() string {
	text := strings.Join(g.argv, " ")
	if len(text) > 80 {
		text = strings.ToValidUTF8(text[:77], "") + "..."
	}
	return fmt.Sprintf("%q", text)
}

// ground is a root in which guests work.
type ground struct {
	known map[fspath.Identity]bool // the parts that were there before the oldest of them; nil: nobody works there, and all was judged
	named map[string]string        // what git's settings named then
	kept  kept                     // what those that work there were denied
	asked []string                 // the roots that they have, as grants name them
	began time.Time
	mark  *mark // that somebody works there, for the next gantry; nil: there is none
	// record is what the mark says.
	record record
	anchor *anchor // the folder itself, while somebody works there; nil: its path is all that counts

	until   time.Time                  // how long the mark stays when nobody works there
	marked  map[fspath.Identity]bool   // the parts that the mark names
	digests map[fspath.Identity]string // of those
	off     *time.Timer                // takes the mark away
	lull    *time.Timer                // has what has changed read
}

// forget ends what is known of a root in which nobody works any more.
func (at *ground) forget() {
	at.known = nil
	if at.anchor != nil {
		at.anchor.close()
		at.anchor = nil
	}
}

// end takes back what a ground leaves on disk, and stops what is to come.
func (at *ground) end() {
	for _, t := range []*time.Timer{at.off, at.lull} {
		if t != nil {
			t.Stop()
		}
	}
	at.forget()
	if at.mark != nil {
		at.mark.remove()
		at.mark = nil
	}
}

var errEnding = errors.New("gantry is ending")

// guests are all of a box's, and what is known of the roots in which they work.
type guests struct {
	index   *index
	remains *remains
	marks   *markings
	moved   func(launch.Owner, []Moved, error)

	mu      sync.Mutex
	list    []*guest // in the order in which they came
	grounds map[string]*ground
	closed  bool
	pipes   []*os.File // of gantries that were killed

	ending  chan struct{}  // closed with closed
	leaving sync.WaitGroup // who waits for those
}

// word is what has to be said once the lock is given back.
type word struct {
	owner launch.Owner
	moved []Moved
	err   error
}

func (h *guests) say(words ...word) {
	for _, w := range words {
		if h.moved != nil && (len(w.moved) > 0 || w.err != nil) {
			h.moved(w.owner, w.moved, w.err)
		}
	}
}

// ground returns that of a root; the caller holds h.mu.
func (h *guests) ground(root string) *ground {
	g := h.grounds[root]
	if g == nil {
		g = &ground{}
		h.grounds[root] = g
	}
	return g
}

// on are the guests that work in a root.
func (h *guests) on(root string) []*guest {
	return slices.DeleteFunc(slices.Clone(h.list), func(g *guest) bool { return !slices.Contains(fspath.Outermost(g.roots), root) })
}

// tries are how often folders are looked through that are moved about meanwhile.
const tries = 4

// enter makes g a guest and returns the parts that are there now. What is there and nobody has worked in is the user's own.
func (h *guests) enter(g *guest) (*parts, error) {
	h.mu.Lock()
	found, words, err := h.admit(g)
	h.mu.Unlock()
	h.say(words...)
	return found, err
}

func (h *guests) admit(g *guest) (found *parts, words []word, err error) {
	if h.closed {
		return nil, nil, errEnding
	}
	h.follow()
	outer := fspath.Outermost(g.roots)
	for _, root := range outer {
		w, err := h.recover(root, g.owner)
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		if len(h.on(root)) > 0 || h.ground(root).known == nil {
			continue
		}
		w, err = h.sure(g.owner, []string{root}) // it could not be judged when the last had ended
		words = append(words, w...)
		if err != nil {
			return nil, words, err
		}
		h.ground(root).forget()
	}
	if found, err = h.know(g.roots, g.whole); err != nil {
		h.rest(outer)
		return nil, words, err
	}
	for _, root := range outer {
		at := h.ground(root)
		maps.Copy(at.kept, g.kept)
		at.asked = append(at.asked, slices.DeleteFunc(slices.Clone(g.asked), func(r string) bool { return slices.Contains(at.asked, r) })...)
	}
	h.list = append(h.list, g)
	return found, words, nil
}

// know takes what is there for the user's own, in roots in which nobody works, and marks them. It returns what is there.
func (h *guests) know(roots []string, whole map[string]fspath.Identity) (*parts, error) {
	outer := fspath.Outermost(roots)
	if !slices.ContainsFunc(outer, func(r string) bool { return h.ground(r).known == nil }) {
		return h.index.look(roots, whole, nil)
	}
	all, err := h.index.look(roots, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, root := range outer {
		at := h.ground(root)
		if at.known != nil {
			continue
		}
		known := map[fspath.Identity]bool{}
		for _, p := range all.list {
			if p.root == root {
				known[p.id] = true
			}
		}
		if err := h.note(root, all, known); err != nil {
			return nil, err
		}
		at.forget()
		at.anchor = anchorAt(root)
		at.known, at.named, at.kept, at.asked, at.began = known, all.named, kept{}, nil, time.Now()
	}
	return h.index.lookAgain(roots, whole)
}

// expect is what enter would return, for a box that waits for its process. The mark that somebody works there is written meanwhile.
func (h *guests) expect(roots []string, whole map[string]fspath.Identity) (*parts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errEnding
	}
	h.follow()
	fresh := slices.DeleteFunc(fspath.Outermost(roots), func(r string) bool { return h.ground(r).known != nil })
	found, err := h.know(roots, whole)
	for _, root := range fresh { // nobody works there yet
		h.ground(root).forget()
		h.later(root, patience)
	}
	return found, err
}

// look is what enter has returned, as it is now.
func (h *guests) look(roots []string, whole map[string]fspath.Identity) (*parts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.index.look(roots, whole, nil)
}

// withdraw takes back a guest that never came.
func (h *guests) withdraw(g *guest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.DeleteFunc(h.list, func(x *guest) bool { return x == g })
	h.rest(fspath.Outermost(g.roots))
}

// leave is the end of a guest. What it has made is judged; more is what else there is to say of it.
func (h *guests) leave(g *guest, more func() []Moved) (sure bool) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	words, unsure, err := h.judge(g.owner, h.around(g.roots))
	if err != nil {
		words = append(words, word{owner: g.owner, err: err})
	} else {
		h.allow(g)
	}
	h.list = slices.DeleteFunc(h.list, func(x *guest) bool { return x == g })
	if sure = err == nil && unsure == nil; sure {
		h.rest(fspath.Outermost(g.roots))
	}
	h.mu.Unlock()
	if more != nil {
		if later := more(); len(words) > 0 {
			words[0].moved = append(words[0].moved, later...)
		} else {
			words = []word{{owner: g.owner, moved: later}}
		}
	}
	h.say(words...)
	h.index.trim(h.idle)
	return sure
}

// allow makes what was opened for a guest, and is there now, a part that others may find.
func (h *guests) allow(g *guest) {
	if len(g.opened) == 0 || len(h.list) < 2 {
		return
	}
	all, err := h.index.look(g.roots, nil, nil)
	if err != nil {
		return // then it is judged with the others
	}
	for _, p := range all.list {
		if at := h.grounds[p.root]; at != nil && at.known != nil && (isOpen(p.full(), g.opened) || fspath.BelowAny(p.full(), g.opened)) {
			at.known[p.id] = true
		}
	}
}

// rest forgets what was known of roots in which nobody works any more.
func (h *guests) rest(roots []string) {
	for _, root := range roots {
		at := h.grounds[root]
		if at == nil || len(h.on(root)) > 0 {
			continue
		}
		at.forget()
		h.later(root, linger)
	}
}

// later has the mark of a root taken away after a time, if nobody works there then.
func (h *guests) later(root string, after time.Duration) {
	at := h.ground(root)
	if at.mark == nil || h.closed {
		return
	}
	if until := time.Now().Add(after); until.After(at.until) {
		at.until = until
	}
	if at.off != nil {
		at.off.Stop()
	}
	at.off = time.AfterFunc(time.Until(at.until), func() { h.unmark(root) })
}

// unmark takes the mark of a root away in which nobody works any more.
func (h *guests) unmark(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at := h.grounds[root]; at != nil && at.known == nil && at.mark != nil {
		at.mark.remove()
		at.mark = nil
	}
}

// around are the roots of all that work in one of these, or in one of theirs.
func (h *guests) around(roots []string) []string {
	out := fspath.Outermost(roots)
	for n := -1; n != len(out); {
		n = len(out)
		for _, g := range h.list {
			own := fspath.Outermost(g.roots)
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

// sure judges until it is certain that nothing was overlooked.
func (h *guests) sure(owner launch.Owner, roots []string) (words []word, err error) {
	for range tries {
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
func (h *guests) judge(owner launch.Owner, outer []string) (words []word, unsure, err error) {
	for range tries {
		moved := h.follow()
		for i, root := range outer {
			outer[i] = cmp.Or(moved[root], root)
		}
		if words, unsure, err = h.judgeIn(owner, outer); !errors.Is(err, tree.ErrGone) {
			break
		}
	}
	return words, unsure, err
}

func (h *guests) judgeIn(owner launch.Owner, outer []string) (words []word, unsure, err error) {
	var roots, opened, missing, asked []string
	var whole map[string]fspath.Identity
	was, before := past{known: map[fspath.Identity]bool{}, began: time.Now(), kept: kept{}}, &parts{named: map[string]string{}}
	for _, root := range outer {
		if at := h.grounds[root]; at != nil && at.known != nil && fspath.IsDir(root) { // who has removed it has left nothing in it
			roots, asked = append(roots, root), append(asked, at.asked...)
			maps.Copy(was.known, at.known)
			maps.Copy(was.kept, at.kept)
			maps.Copy(before.named, at.named)
			if at.began.Before(was.began) {
				was.began = at.began
			}
		}
	}
	if len(roots) == 0 {
		return nil, nil, nil
	}
	var all []*guest
	for _, g := range h.list {
		if !slices.ContainsFunc(fspath.Outermost(g.roots), func(r string) bool { return slices.Contains(outer, r) }) {
			continue
		}
		for _, r := range g.roots {
			if !slices.Contains(roots, r) && fspath.IsDir(r) {
				roots = append(roots, r)
			}
		}
		opened, missing = append(opened, g.opened...), append(missing, g.missing...)
		if len(all) == 0 {
			whole = maps.Clone(g.whole)
		}
		maps.DeleteFunc(whole, func(path string, id fspath.Identity) bool { return g.whole[path] != id })
		all = append(all, g)
	}
	after, moved, err := h.clear(was, opened, func() (*parts, error) {
		after, err := h.index.look(roots, whole, was.known)
		if err == nil {
			after.since(was.began, before)
			after.list = append(after.list, slices.Concat(appeared(missing, roots), misled(asked, roots))...)
		}
		return after, err
	})
	if after == nil {
		return nil, nil, err
	}
	if len(moved) > 0 || err != nil {
		words = append(words, word{owner: owner, moved: moved, err: err})
		words = append(words, strike(all, len(moved))...)
	}
	if unsure = after.err; unsure == nil && after.moved {
		unsure = errors.New("folders are being moved all the time, so that what is executed later can't be looked for; end what moves them")
	}
	return words, unsure, nil
}

// clear moves aside what look finds and was not known. Folders that were moved are looked through in turn: under their old names nothing
// in them was.
func (h *guests) clear(was past, opened []string, look func() (*parts, error)) (after *parts, moved []Moved, err error) {
	for range tries {
		if after, err = look(); err != nil {
			return nil, moved, err
		}
		some, stuck, again, err := quarantine(was, opened, after)
		h.remains.add(stuck) // which refuses whatever comes next
		moved = append(moved, some...)
		if err != nil || !again && !slices.ContainsFunc(some, func(m Moved) bool { return m.To != "" && fspath.IsDir(m.To) }) {
			return after, moved, err
		}
	}
	after.moved = true
	return after, moved, nil
}

// strike holds what was moved aside against those who may have made it: sessions, while no call is under way.
func strike(all []*guest, moves int) (words []word) {
	if moves == 0 || slices.ContainsFunc(all, func(g *guest) bool { return !g.background }) {
		return nil
	}
	for _, g := range all {
		g.strikes++
		if g.moves += moves; g.moves >= maxMoves && g.end != nil {
			g.end()
			g.end = nil
			words = append(words, word{owner: g.owner, err: fmt.Errorf("the session %s was ended: %d times it has made what is executed later, and that was moved aside", g.name(), g.moves)})
		}
	}
	return words
}

// settle deals with what guests have made until now, before something runs outside of a box. An error says why nothing may.
func (h *guests) settle(owner launch.Owner) error {
	h.mu.Lock()
	var words []word
	var err error
	h.follow()
	for _, root := range slices.Sorted(maps.Keys(h.grounds)) {
		if at := h.grounds[root]; at == nil || at.known == nil {
			continue
		}
		of := owner
		if on := h.on(root); len(on) > 0 {
			of = on[0].owner
		}
		w, failed := h.sure(of, h.around([]string{root}))
		words, err = append(words, w...), errors.Join(err, failed)
	}
	for _, g := range h.list {
		if err == nil && g.strikes >= maxStrikes {
			err = fmt.Errorf("the session %s makes again what is executed later and was moved aside; nothing runs outside of the sandbox while it does: end that session first", g.name())
		}
	}
	h.mu.Unlock()
	h.say(words...)
	return err
}

// straighten moves aside a link on the way to a writable root, if commands have made it.
func (h *guests) straighten(owner launch.Owner, link string) bool {
	h.mu.Lock()
	began, found := time.Time{}, ""
	for root, at := range h.grounds {
		if at.known != nil && fspath.Below(link, root) && (found == "" || at.began.Before(began)) {
			began, found = at.began, root
		}
	}
	if found == "" {
		list, _ := h.marks.orphans(link)
		for _, o := range list {
			if fspath.Below(link, o.Root) && (found == "" || o.began.Before(began)) {
				began, found = o.began, o.Root
			}
			o.file.Close()
		}
	}
	id, _, ok := fspath.Lstat(link)
	was := past{began: began}
	if found == "" || !ok || was.before(id.Changed) {
		h.mu.Unlock()
		return false
	}
	rel, _ := filepath.Rel(found, link)
	moved, stuck, _, err := quarantine(was, nil, &parts{roots: []string{found}, list: []part{{root: found, path: rel, kind: kindRootLink, id: id}}})
	h.remains.add(stuck)
	h.mu.Unlock()
	h.say(word{owner: owner, moved: moved, err: err})
	return len(moved) > 0
}

// outlive says that a call has ended, of which guests may still run.
func (h *guests) outlive(owner launch.Owner) {
	h.mu.Lock()
	var roots []string
	for _, g := range h.list {
		if g.owner == owner && !g.background {
			g.background, roots = true, append(roots, g.roots...)
		}
	}
	h.mu.Unlock()
	for _, root := range fspath.Outermost(roots) {
		h.live(root)
	}
}

// live judges at once, unless a call is under way.
func (h *guests) live(root string) {
	h.mu.Lock()
	var words []word
	if to, ok := h.follow()[root]; ok {
		root = to
	}
	if on := h.on(root); len(on) > 0 && !slices.ContainsFunc(on, func(g *guest) bool { return !g.background }) {
		var err error
		if words, _, err = h.judge(on[0].owner, h.around([]string{root})); err != nil {
			words = append(words, word{owner: on[0].owner, err: err})
		}
	}
	h.mu.Unlock()
	h.say(words...)
}

// stirred hears that something has changed in a root.
func (h *guests) stirred(root string) {
	h.mu.Lock()
	busy := len(h.on(root)) > 0
	if at := h.ground(root); !busy && !h.closed { // it is read when that is over
		if at.lull == nil {
			at.lull = time.AfterFunc(lull, func() { h.read(root) })
		} else {
			at.lull.Reset(lull)
		}
	}
	h.mu.Unlock()
	if busy {
		h.live(root)
	}
}

// moving reports whether guests work in a folder that is not at its path any more; the caller holds h.mu.
func (h *guests) moving(root string) bool {
	at := h.grounds[root]
	return at != nil && at.known != nil && at.anchor != nil && !at.anchor.is(root)
}

// read has what has changed in a root read while nobody waits for it.
func (h *guests) read(root string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.on(root)) == 0 && !h.closed {
		_, _, _ = h.index.settle(root) // who needs it hears of the error
	}
}

// idle reports whether nobody works in a root.
func (h *guests) idle(root string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.grounds[root]
	return (at == nil || at.known == nil) && len(h.on(root)) == 0
}

// close is the end of this gantry.
func (h *guests) close() {
	h.mu.Lock()
	h.closed = true
	for _, at := range h.grounds {
		for _, t := range []*time.Timer{at.off, at.lull} {
			if t != nil {
				t.Stop()
			}
		}
		left := at.known != nil
		at.forget()
		if at.mark == nil {
			continue
		}
		if !left {
			at.mark.remove()
		} else {
			at.mark.leave() // the next one judges what is there
		}
		at.mark = nil
	}
	select {
	case <-h.ending:
	default:
		close(h.ending)
	}
	closeAll(h.pipes) // which ends the waiting for them
	h.mu.Unlock()
	h.leaving.Wait()
	h.index.close()
	h.marks.drop()
}
