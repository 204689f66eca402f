package postgres

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"unicode/utf8"
)

// querier has the common methods of pools and connections of database/sql.
type querier interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// pool adapts statements that are written for SQLite: it numbers their parameters, and replaces characters that the server rejects,
// which would otherwise fail a whole batch.
type pool struct{ querier }

// ExecContext implements gorm's pool.
func (p pool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return p.querier.ExecContext(ctx, numbered(query), storable(args)...)
}

// QueryContext implements gorm's pool.
func (p pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return p.querier.QueryContext(ctx, numbered(query), storable(args)...)
}

// QueryRowContext implements gorm's pool.
func (p pool) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return p.querier.QueryRowContext(ctx, numbered(query), storable(args)...)
}

// numbered replaces the parameters ?, ?, ... of a statement with $1, $2, ... The statements contain no other question marks.
func numbered(query string) string {
	n := strings.Count(query, "?")
	if n == 0 {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 3*n)
	for i := 1; ; i++ {
		before, after, more := strings.Cut(query, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i))
		query = after
	}
}

// storable replaces what PostgreSQL doesn't allow in text: zero bytes, which a model can put into a name, and invalid UTF-8, which paths
// on Linux can contain.
func storable(args []any) []any {
	copied := false
	for i, a := range args {
		s, ok := a.(string)
		if !ok || strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
			continue
		}
		if !copied {
			args, copied = append([]any(nil), args...), true
		}
		args[i] = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	return args
}
