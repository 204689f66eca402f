// Package secret keeps keys and tokens where nobody else reads them: encrypted in files below gantry's home, under a key
// that lies in the keyring of the operating system, or in a file of its owner's where there is no keyring.
//
// It owns: the files, their key, the names of what is kept. It must not know: what a secret is for, who asks, what may be
// shown to whom.
//
// Values are files and not entries of the keyring because keyrings bound their size: 2560 bytes on Windows, some 3,000 on
// macOS, less than an OAuth token may have. Start with [Open].
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrNotFound is the error of a name under which nothing is kept. It is an [fs.ErrNotExist].
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string        { return "no such secret is stored" }
func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

const (
	maxName  = 125 // bytes; hex of it and the suffix still make a file name
	maxValue = 1 << 20
	keyBytes = 32
	suffix   = ".enc"
)

// Keyring keeps the one key. Its errors mean that there is no keyring to use.
type Keyring interface {
	// Get returns [ErrNotFound] when the keyring works and has nothing.
	Get() (string, error)
	Put(value string) error
	Delete() error
}

// Store keeps secrets. Safe for concurrent use, also by several processes.
type Store struct {
	dir     string
	keyring Keyring

	mu struct {
		sync.Mutex
		aead  cipher.AEAD // nil until it is needed
		where string
	}
}

// Open returns the store in a folder. Nothing is read or made before it is needed. A nil keyring means that there is none.
func Open(dir string, keyring Keyring) *Store { return &Store{dir: dir, keyring: keyring} }

// Get returns a secret, or [ErrNotFound].
func (s *Store) Get(name string) (string, error) {
	path, err := s.path(name)
	if err != nil {
		return "", err
	}
	sealed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", err
	}
	aead, err := s.key(false)
	if err != nil {
		return "", err
	}
	if len(sealed) < aead.NonceSize() {
		return "", s.undecryptable(name)
	}
	nonce, rest := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	value, err := aead.Open(nil, nonce, rest, []byte(name))
	if err != nil {
		return "", s.undecryptable(name)
	}
	return string(value), nil
}

func (s *Store) undecryptable(name string) error {
	return fmt.Errorf("secret %q can't be decrypted with the key in %s: store it again", name, s.Where())
}

// Put keeps a secret, in place of one of the same name.
func (s *Store) Put(name, value string) error {
	path, err := s.path(name)
	switch {
	case err != nil:
		return err
	case value == "":
		return fmt.Errorf("secret %q is empty", name)
	case len(value) > maxValue:
		return fmt.Errorf("secret %q has more than %d bytes", name, maxValue)
	}
	aead, err := s.key(true)
	if err != nil {
		return err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce)
	return writeFile(path, aead.Seal(nonce, nonce, []byte(value), []byte(name)))
}

// Delete forgets a secret, or returns [ErrNotFound].
func (s *Store) Delete(name string) error {
	path, err := s.path(name)
	if err != nil {
		return err
	}
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return err
}

// Names lists what is kept, sorted.
func (s *Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		coded, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		if name, err := hex.DecodeString(coded); err == nil {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out, nil
}

// KeyLocation says in words where the key lies, or would when the first secret comes; found tells whether there is one. Nothing is
// made. An error means that what is stored can't be read.
func (s *Store) KeyLocation() (where string, found bool, err error) {
	key, where, err := s.find()
	if err != nil || key != nil {
		return where, key != nil, err
	}
	names, err := s.Names()
	if err == nil && len(names) > 0 {
		err = s.keyMissing()
	}
	return where, false, err
}

// Where says in words where the key lies; empty before it was needed.
func (s *Store) Where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.where
}

func (s *Store) path(name string) (string, error) {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return "", fmt.Errorf("invalid name %q for a secret: names have at most %d bytes and no control characters", name, maxName)
	}
	return filepath.Join(s.dir, hex.EncodeToString([]byte(name))+suffix), nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// key returns what encrypts. One is made only when there is something to be kept.
func (s *Store) key(make bool) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.aead != nil {
		return s.mu.aead, nil
	}
	key, where, err := s.load(make)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("the key in %s: %w", where, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	s.mu.aead, s.mu.where = aead, where
	return aead, nil
}

const inKeyring = "the system's keyring"

// load finds the key, or makes one. A keyring offers no way to put a value only where there is none, so that is for one
// process at a time: the other's secrets would be lost with its key.
func (s *Store) load(make bool) (key []byte, where string, err error) {
	key, where, err = s.find()
	if err != nil || key != nil {
		return key, where, err
	}
	if !make {
		return nil, "", s.keyMissing()
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, "", err
	}
	err = withLock(s.dir, func() error {
		if key, where, err = s.find(); err != nil || key != nil {
			return err
		}
		if where == inKeyring {
			key = newKey()
			if s.keyring.Put(encodeKey(key)) == nil {
				return nil
			}
		}
		where = s.file()
		key, err = makeKeyFile(where)
		return err
	})
	return key, where, err
}

// find looks for the key: in the file, which is there only where no keyring was when the first secret came, or in the
// keyring. Without one where says where it would be kept.
func (s *Store) find() (key []byte, where string, err error) {
	file := s.file()
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		key, err := parseKey(string(text))
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w; remove it and store the secrets again", file, err)
		}
		return key, file, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, "", err
	}
	if s.keyring == nil {
		return nil, file, nil
	}
	in, err := s.keyring.Get()
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, inKeyring, nil
	case err != nil:
		return nil, file, nil // there is none to use
	}
	if key, err = parseKey(in); err != nil {
		return nil, "", fmt.Errorf("%s: %w; remove the entry and store the secrets again", inKeyring, err)
	}
	return key, inKeyring, nil
}

func (s *Store) file() string { return filepath.Join(s.dir, "key") }

// keyMissing is the error of secrets without a key.
func (s *Store) keyMissing() error {
	return fmt.Errorf("the encryption key of the stored secrets is neither in %s nor in %s: unlock the keyring, or store the secrets again", inKeyring, s.file())
}

func newKey() []byte {
	key := make([]byte, keyBytes)
	rand.Read(key)
	return key
}

func encodeKey(key []byte) string { return base64.StdEncoding.EncodeToString(key) }

func parseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != keyBytes {
		return nil, errors.New("the key is damaged")
	}
	return key, nil
}

// makeKeyFile makes the key's file, or reads the one that another process made at the same time.
func makeKeyFile(path string) ([]byte, error) {
	key := newKey()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	whole, err := writeTemp(filepath.Dir(path), []byte(encodeKey(key)+"\n"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(whole)
	// A link appears whole or not at all, and only one of several wins.
	err = os.Link(whole, path)
	if errors.Is(err, fs.ErrExist) {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return parseKey(string(text))
	}
	return key, err
}

// writeFile replaces a file whole or not at all.
func writeFile(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := writeTemp(filepath.Dir(path), b)
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// writeTemp writes a file that only its owner may read, and has it on disk.
func writeTemp(dir string, b []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
