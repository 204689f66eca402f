//go:build !linux

package plugintest

// treeSupported reports whether processes can be listed and measured. The checks that need it are skipped.
const treeSupported = false

func marked(string) []int { return nil }

func descendants(int) []int { return nil }

func childFaults(int) int64 { return 0 }

func alive(int) bool { return false }

func resident([]int) int64 { return 0 }
