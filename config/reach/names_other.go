//go:build !unix

package reach

// names is how many names a file has, which is not known here.
func names(string) uint64 { return 1 }
