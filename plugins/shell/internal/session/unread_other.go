//go:build !unix

package session

import "io"

func unread(io.Reader) bool { return false }
