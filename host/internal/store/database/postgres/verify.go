package postgres

import (
	"context"
	"fmt"

	"github.com/gantry-agent/gantry/config/hint"
	"gorm.io/gorm"
)

// Verify implements [database.Conn]. It finds nothing: a server has its own checksums and tools, which report to its operators.
func (c *conn) Verify(context.Context, bool) ([]string, error) { return nil, nil }

// Reindex implements [database.Conn].
func (c *conn) Reindex(*gorm.DB) error {
	return hint.With(fmt.Errorf("can't rebuild the indexes of %s from here", c.where), "run REINDEX on the server")
}
