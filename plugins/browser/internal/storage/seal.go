package storage

import (
	"bytes"
	"compress/gzip"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// version is the first byte of what is sealed.
const version = 1

// NewKey returns a random key.
func NewKey() []byte {
	k := make([]byte, KeySize)
	_, _ = rand.Read(k) // it never fails
	return k
}

// ErrSealed is the error of what can't be opened: it was sealed with another key or for another purpose, or has been changed.
var ErrSealed = errors.New("the stored state of the browser can't be opened: its key has changed, or it is damaged")

func gcm(key []byte) (cipher.AEAD, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(b)
}

// Seal encrypts a state. It can be opened with the same key and name only.
func Seal(key []byte, name string, s State) ([]byte, error) {
	a, err := gcm(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, err
	}
	return a.Seal([]byte{version}, nil, b.Bytes(), []byte(name)), nil
}

// Open decrypts what Seal has returned.
func Open(key []byte, name string, sealed []byte) (State, error) {
	a, err := gcm(key)
	if err != nil {
		return State{}, err
	}
	if len(sealed) == 0 || sealed[0] != version {
		return State{}, ErrSealed
	}
	plain, err := a.Open(nil, nil, sealed[1:], []byte(name))
	if err != nil {
		return State{}, ErrSealed
	}
	r, err := gzip.NewReader(bytes.NewReader(plain))
	if err != nil {
		return State{}, fmt.Errorf("%w (%w)", ErrSealed, err)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return State{}, fmt.Errorf("%w (%w)", ErrSealed, err)
	}
	return Parse(b)
}
