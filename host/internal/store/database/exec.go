package database

import (
	"time"

	"gorm.io/gorm"
)

// Exec executes a statement in a transaction without gorm's statement builder, whose work the hot path does not need.
func Exec(tx *gorm.DB, query string, args ...any) error {
	_, err := Affected(tx, query, args...)
	return err
}

// Affected is [Exec] and returns the number of rows that the statement changed.
func Affected(tx *gorm.DB, query string, args ...any) (int64, error) {
	res, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Nanos returns a time as it is stored: in nanoseconds since 1970, and 0 for the zero time.
func Nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Time returns the time that [Nanos] has stored, in UTC.
func Time(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}
