package config

import _ "embed"

//go:embed builtin.hcl
var builtinText []byte

//go:embed stranger.hcl
var strangerText []byte

//go:embed starter.hcl
var starterText string

// Starter returns the text of a first gantry.hcl: it is valid, and shows the most common blocks as comments.
func Starter() string { return starterText }
