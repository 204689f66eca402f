package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
)

// access knows the token of a server's sessions, and the codes that can be exchanged for it. Both are random and end with the process.
type access struct {
	token string
	sum   [sha256.Size]byte // of the token

	mu    sync.Mutex
	codes [][sha256.Size]byte // of codes that were not used yet, oldest first
}

// maxCodes bounds the unused codes. Beyond, the oldest becomes invalid.
const maxCodes = 16

func newAccess() *access {
	t := random()
	return &access{token: t, sum: sha256.Sum256([]byte(t))}
}

// random returns 256 random bits.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// code returns a new code.
func (a *access) code() string {
	c := random()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.codes) == maxCodes {
		a.codes = a.codes[1:]
	}
	a.codes = append(a.codes, sha256.Sum256([]byte(c)))
	return c
}

// exchange uses a code up.
func (a *access) exchange(code string) (token string, ok bool) {
	sum := sha256.Sum256([]byte(code))
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, c := range a.codes {
		if subtle.ConstantTimeCompare(c[:], sum[:]) == 1 {
			a.codes = append(a.codes[:i:i], a.codes[i+1:]...)
			return a.token, true
		}
	}
	return "", false
}

func (a *access) valid(token string) bool {
	sum := sha256.Sum256([]byte(token)) // digests have the same length, and reveal nothing by the position of their first difference
	return subtle.ConstantTimeCompare(sum[:], a.sum[:]) == 1
}
