package cli

import "github.com/gantry-agent/gantry/host/internal/cli/codex"

// settings is the flag -c, and also --config if its value is a setting rather than a file, as codex's SDKs use it.
type settings struct {
	app  *app
	file bool
	last string
}

// Set implements [pflag.Value].
func (s *settings) Set(v string) error {
	s.last = v
	if s.file && (!codex.Assigns(v) || s.app.IsFile(v)) {
		s.app.Flags.Config = v
		return nil
	}
	s.app.Flags.Sets = append(s.app.Flags.Sets, v)
	return nil
}

// String implements [pflag.Value].
func (s *settings) String() string { return s.last }

// Type implements [pflag.Value].
func (s *settings) Type() string {
	if s.file {
		return "string"
	}
	return "stringArray"
}
