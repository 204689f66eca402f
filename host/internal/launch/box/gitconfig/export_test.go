package gitconfig

// ReadFile reads one file with its includes.
func ReadFile(path, home string) Settings {
	r := reader{home: home, seen: map[string]bool{}}
	r.file(path, 0)
	return r.out
}
