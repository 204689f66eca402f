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

// The texts that the user saw when trusting a project are stored so that later only changes have to be reviewed. No decision
// depends on them.

// Limits for the stored texts of a project. Files beyond them are shown in full again.
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

// Shown returns the texts, by path, that the user saw when last trusting a project; nil if unknown.
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

// Remember stores the texts that the user has seen.
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

// Forget removes the stored texts.
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
