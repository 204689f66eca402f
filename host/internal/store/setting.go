package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gantry-agent/gantry/host/internal/store/database"
	"gorm.io/gorm"
)

// Setting returns a setting of the user, something that a command has changed and a file does not say. One that was never
// put is a [*NotFoundError].
func (s *Store) Setting(ctx context.Context, key string) (json.RawMessage, error) {
	g, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	var rows []settingRow
	if err := g.Where("key = ?", key).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read setting %q: %w", key, s.db.Explain(err))
	}
	if len(rows) == 0 {
		return nil, &NotFoundError{What: "setting", ID: key}
	}
	return json.RawMessage(rows[0].Value), nil
}

// PutSetting stores a setting, which is JSON; nil removes it.
func (s *Store) PutSetting(ctx context.Context, key string, value json.RawMessage) error {
	if value != nil && !json.Valid(value) {
		return fmt.Errorf("store setting %q: not JSON", key)
	}
	return s.change(ctx, func(tx *gorm.DB) error {
		if value == nil {
			return database.Exec(tx, "DELETE FROM settings WHERE key = ?", key)
		}
		return database.Exec(tx, `INSERT INTO settings (key, value, updated_at) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
			key, string(value), time.Now().UnixNano())
	})
}
