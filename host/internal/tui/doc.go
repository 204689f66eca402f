// Package tui is the terminal interface: a client of the app server on a screen.
//
// It owns: what keys do, commands, and how the parts of the screen share it. It does not know how a thread runs, or how the server was
// started. Its subpackages own the parts.
//
// Start with [Run] and [Model.Update]. A [Model] is changed by messages alone; calls of the server are commands, whose results are
// messages.
package tui
