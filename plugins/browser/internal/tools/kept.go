package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agent/gantry/plugins/browser/internal/storage"
	"github.com/gantry-agent/gantry/sdk/configblock"
	"github.com/gantry-agent/gantry/sdk/contract"
	"github.com/gantry-agent/gantry/sdk/tool"
)

// ProfileBlock is the block of a profile.
type ProfileBlock struct {
	Name    string   `label:"name"`
	Domains []string `json:"domains" required:"true" doc:"The sites: hosts such as \"example.com\", or \"*.example.com\" with its subdomains."`
}

func (b ProfileBlock) check() error {
	if len(b.Domains) == 0 {
		return fmt.Errorf("the profile %q has no domains", b.Name)
	}
	for _, d := range b.Domains {
		name := strings.TrimPrefix(strings.TrimPrefix(d, "*"), "*.")
		if name = strings.TrimPrefix(name, "."); name == "" || strings.ContainsAny(name, "*/:@ ") {
			return fmt.Errorf("%q is not a domain of a profile; write a host such as \"example.com\" or \"*.example.com\"", d)
		}
	}
	return nil
}

// has reports whether a host belongs to the profile.
func (b ProfileBlock) has(host string) bool {
	return slices.ContainsFunc(b.Domains, func(d string) bool {
		d = strings.ToLower(d)
		apex, below := strings.CutPrefix(strings.TrimPrefix(d, "*"), "*.")
		if !below {
			apex, below = strings.CutPrefix(d, "*.")
		}
		return host == apex || below && strings.HasSuffix(host, "."+apex)
	})
}

// saveInterval is how long changes of cookies may wait until they are kept.
const saveInterval = time.Minute

// saveTime limits how long it may take to keep what a browser has that is about to end.
const saveTime = 10 * time.Second

// keeper keeps the states of the profiles beyond their browser.
type keeper struct {
	env      *tool.Env
	profiles []ProfileBlock
	r        *running
	origins  *storage.Origins

	mu     sync.Mutex
	loaded storage.State // as it was when the browser has last been loaded or saved
	saved  time.Time
}

func newKeeper(env *tool.Env, profiles []ProfileBlock, r *running) *keeper {
	return &keeper{env: env, profiles: profiles, r: r, origins: storage.Watch(r.Browser)}
}

// key returns the key that seals the states, which is a stored secret.
func (k *keeper) key(ctx context.Context) ([]byte, error) {
	const name = "storage-key"
	text, found, err := k.env.StoredSecret(ctx, name)
	if err != nil {
		return nil, err
	}
	if !found {
		text = base64.StdEncoding.EncodeToString(storage.NewKey())
		if err := k.env.StoreSecret(ctx, name, text); err != nil {
			return nil, err
		}
	}
	return base64.StdEncoding.DecodeString(text)
}

func stateKey(profile string) string { return "storage/" + profile }

// stored returns the state of a profile, and its version.
func (k *keeper) stored(ctx context.Context, key []byte, profile string) (storage.State, uint64, error) {
	sealed, version, ok, err := k.env.State().Get(ctx, stateKey(profile))
	if err != nil || !ok {
		return storage.State{}, 0, err
	}
	s, err := storage.Open(key, profile, sealed)
	return s, version, err
}

// load puts the states of all profiles into a new browser, and says what failed.
func (k *keeper) load(ctx context.Context) []string {
	if len(k.profiles) == 0 {
		return nil
	}
	key, err := k.key(ctx)
	if err != nil {
		return []string{"The profiles can't be used: " + err.Error() + "."}
	}
	var lines []string
	var all storage.State
	for _, p := range k.profiles {
		s, _, err := k.stored(ctx, key, p.Name)
		if err != nil {
			lines = append(lines, fmt.Sprintf("What is kept of the profile %q can't be used: %v.", p.Name, err))
			continue
		}
		all = storage.Merge(all, s.Only(p.has)) // its domains may be others now
	}
	if err := storage.Load(ctx, k.r.Browser, all, time.Now()); err != nil {
		lines = append(lines, fmt.Sprintf("Some of what is kept of the profiles was not loaded: %v.", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded, k.saved = all, time.Now()
	return lines
}

// changed reports whether cookies have changed, and long enough ago.
func (k *keeper) changed(ctx context.Context) bool {
	if len(k.profiles) == 0 {
		return false
	}
	k.mu.Lock()
	loaded, saved := k.loaded, k.saved
	k.mu.Unlock()
	if time.Since(saved) < saveInterval {
		return false
	}
	now, err := storage.Cookies(ctx, k.r.Browser)
	return err == nil && !slices.Equal(storage.State{Cookies: now}.Only(k.any).Cookies, loaded.Cookies)
}

// any reports whether a host belongs to any profile.
func (k *keeper) any(host string) bool {
	return slices.ContainsFunc(k.profiles, func(p ProfileBlock) bool { return p.has(host) })
}

// save keeps what the sites of the profiles have in the browser.
func (k *keeper) save(ctx context.Context) error {
	if len(k.profiles) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, saveTime, fmt.Errorf("it took longer than %v", saveTime))
	defer cancel()
	key, err := k.key(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	loaded := k.loaded
	k.mu.Unlock()
	var origins storage.State
	for _, o := range k.origins.All() {
		origins.Origins = append(origins.Origins, storage.Origin{Origin: o})
	}
	var mine []string
	for _, o := range origins.Only(k.any).Origins {
		mine = append(mine, o.Origin)
	}
	now, failed := storage.Save(ctx, k.r.Browser, mine)
	now = now.Only(k.any)
	errs := []error{failed}
	for _, p := range k.profiles {
		errs = append(errs, k.put(ctx, key, p, loaded.Only(p.has), now.Only(p.has)))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded, k.saved = storage.Merge(storage.State{}, now), time.Now()
	return errors.Join(errs...)
}

// put merges a state into what is kept of a profile. What was loaded and is gone has been removed by its site.
func (k *keeper) put(ctx context.Context, key []byte, p ProfileBlock, loaded, now storage.State) error {
	for {
		old, version, err := k.stored(ctx, key, p.Name)
		if err != nil && !errors.Is(err, storage.ErrSealed) {
			return err
		}
		old.Cookies = slices.DeleteFunc(old.Cookies, func(c storage.Cookie) bool {
			same := func(x storage.Cookie) bool { return x.Name == c.Name && x.Domain == c.Domain && x.Path == c.Path }
			return slices.ContainsFunc(loaded.Cookies, same) && !slices.ContainsFunc(now.Cookies, same)
		})
		sealed, err := storage.Seal(key, p.Name, storage.Merge(old, now))
		if err != nil {
			return err
		}
		_, err = k.env.State().PutIf(ctx, stateKey(p.Name), sealed, version)
		if !errors.Is(err, tool.ErrConflict) || ctx.Err() != nil {
			return err
		}
	}
}

// checkProfiles checks the blocks of the profiles.
func checkProfiles(blocks []ProfileBlock) error {
	for i, b := range blocks {
		if err := b.check(); err != nil {
			return configblock.Invalid(err.Error(), contract.Name("profile"), contract.Index(int64(i)))
		}
	}
	return nil
}
