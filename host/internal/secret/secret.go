// Package secret stores keys and tokens in encrypted files below gantry's home. The encryption key is in the keyring of the operating
// system or, without a keyring, in a file that only its owner can read.
//
// It owns: the files, their encryption key, and the names of secrets. It must not know: what a secret is for, which component
// asks for it, which values may be displayed.
//
// Values are stored in files instead of the keyring because keyrings limit their size: to 2560 bytes on Windows, and to about 3,000
// on macOS, less than the size of some OAuth tokens. Start with [Open].
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

// ErrNotFound says that there is no secret with a name. It is an [fs.ErrNotExist].
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string        { return "no such secret is stored" }
func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

const (
	maxName  = 125 // bytes; in hex and with the suffix it still fits into a file name
	maxValue = 1 << 20
	keyBytes = 32
	suffix   = ".enc"
)

// Keyring stores the encryption key. An error means that the keyring can't be used.
type Keyring interface {
	// Get returns [ErrNotFound] if the keyring works but does not contain the key.
	Get() (string, error)
	Put(value string) error
	Delete() error
}

// Store stores secrets. It is safe for concurrent use, also by several processes.
type Store struct {
	dir     string
	keyring Keyring

	mu struct {
		sync.Mutex
		aead  cipher.AEAD // nil until it is needed
		where string
	}
}

// Open returns the store in a folder. It neither reads nor creates anything yet. A nil keyring means that there is none.
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

// Put stores a secret, and replaces one with the same name.
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

// Delete removes a secret, or returns [ErrNotFound].
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

// Names returns the names of all secrets, sorted.
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

// KeyLocation describes where the encryption key is, or where it will be when the first secret is stored; found reports whether it exists.
// It creates nothing. An error means that the stored secrets can't be decrypted.
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

// Where describes where the encryption key is. It is empty until the key has been loaded.
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

// key returns the cipher. The encryption key is created only if make is set, which is when a secret is to be stored.
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

// load finds the encryption key, or creates it. Keyrings can't put a value only if there is none, so only one process at a time may
// create the key: otherwise one process would replace the key of another, whose secrets would be lost.
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

// find looks for the encryption key: in its file, which exists only if there was no keyring when the first secret was stored, or in
// the keyring. If there is no key, where says where it would be stored.
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
		return nil, file, nil // the keyring can't be used
	}
	if key, err = parseKey(in); err != nil {
		return nil, "", fmt.Errorf("%s: %w; remove the entry and store the secrets again", inKeyring, err)
	}
	return key, inKeyring, nil
}

func (s *Store) file() string { return filepath.Join(s.dir, "key") }

// keyMissing returns the error for secrets without an encryption key.
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

// makeKeyFile creates the file of the key, or reads the one that another process has created at the same time.
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
	// Creating a link is atomic, and only one of several processes succeeds.
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

// writeFile replaces a file atomically.
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

// writeTemp writes a temporary file that only its owner may read, and syncs it.
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
