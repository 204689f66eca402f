package store

import sqlite3 "modernc.org/sqlite/lib"

// SQLiteVersion is the version of the database that this program was built with.
func SQLiteVersion() string { return sqlite3.SQLITE_VERSION }
