package config

import _ "embed"

//go:embed builtin.hcl
var builtinText []byte

//go:embed stranger.hcl
var strangerText []byte

//go:embed starter.hcl
var starterText string

// Starter is the text of a first gantry.hcl: valid as it is, with the usual blocks as comments.
func Starter() string { return starterText }
