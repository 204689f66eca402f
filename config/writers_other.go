//go:build !unix

package config

import "io/fs"

func writers(fs.FileInfo) string { return "" }
