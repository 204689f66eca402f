package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gantry-agent/gantry/config/internal/durable"
)

// What was shown when the user agreed is kept, so that later only what has changed has to be read. It decides nothing.

// Bounds of what is kept of a project. What is beyond is shown as a whole again.
const (
	maxShownFile = 512 << 10
	maxShown     = 2 << 20
)

func (s *Store) shownFile(dir string) (string, error) {
	dir, err := resolve(dir)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(filepath.Dir(s.path), "trusted", hex.EncodeToString(sum[:16])+".json"), nil
}

// Shown returns the texts that the user saw when agreeing to a project the last time, by name; none where that is not known.
func (s *Store) Shown(dir string) map[string]string {
	path, err := s.shownFile(dir)
	if err != nil {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var texts map[string]string
	if json.Unmarshal(b, &texts) != nil {
		return nil
	}
	return texts
}

// Remember keeps the texts that the user has seen.
func (s *Store) Remember(dir string, texts map[string]string) error {
	path, err := s.shownFile(dir)
	if err != nil {
		return fmt.Errorf("remember what was shown: %w", err)
	}
	kept, total := map[string]string{}, 0
	for name, text := range texts {
		if total+len(text) <= maxShown && len(text) <= maxShownFile {
			kept[name] = text
			total += len(text)
		}
	}
	b, err := json.Marshal(kept)
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = durable.Replace(path, b, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("remember what was shown: %w", err)
	}
	return nil
}

// Forget removes what was shown.
func (s *Store) Forget(dir string) error {
	path, err := s.shownFile(dir)
	if err == nil {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
