// Package keys is the table of keys and what they do.
//
// It owns: the names of actions, their keys, and how help describes them. It does not know how an action is done.
//
// Start with [Table] and [Find].
package keys

import "slices"

// Action is what a key does.
type Action string

// Context is where a key has a meaning.
type Context string

// The contexts.
const (
	Main     Context = "anywhere"
	Edit     Context = "while you type"
	List     Context = "in lists"
	Question Context = "in questions"
	Pager    Context = "in the pager"
)

// The actions. Those of Edit are the composer's.
const (
	Send        Action = "send"
	Newline     Action = "newline"
	Queue       Action = "queue"
	Interrupt   Action = "interrupt"
	Leave       Action = "leave"
	Cancel      Action = "cancel"
	Editor      Action = "editor"
	History     Action = "history"
	Fold        Action = "fold"
	PageUp      Action = "page-up"
	PageDown    Action = "page-down"
	LineUp      Action = "line-up"
	LineDown    Action = "line-down"
	Top         Action = "top"
	Bottom      Action = "bottom"
	Permissions Action = "permissions"
	LessEffort  Action = "less-effort"
	MoreEffort  Action = "more-effort"
	Help        Action = "help"
	Suspend     Action = "suspend"
	Redraw      Action = "redraw"
	Mouse       Action = "mouse"

	Left       Action = "left"
	Right      Action = "right"
	Up         Action = "up"
	Down       Action = "down"
	WordLeft   Action = "word-left"
	WordRight  Action = "word-right"
	LineStart  Action = "line-start"
	LineEnd    Action = "line-end"
	Delete     Action = "delete"
	DeleteNext Action = "delete-next"
	DeleteWord Action = "delete-word"
	KillWord   Action = "kill-word"
	KillEnd    Action = "kill-end"
	KillStart  Action = "kill-start"
	Yank       Action = "yank"
	Undo       Action = "undo"

	Choose Action = "choose"
	Close  Action = "close"

	OpenPager    Action = "pager"
	Search       Action = "search"
	FindNext     Action = "find-next"
	FindPrevious Action = "find-previous"
	NextMessage  Action = "next-message"
	LastMessage  Action = "previous-message"
	CopyMessage  Action = "copy-message"
	CopyCode     Action = "copy-code"
)

// Binding is an action and its keys, by their names in the terminal library.
type Binding struct {
	Context Context
	Action  Action
	Keys    []string
	Help    string
}

// Table returns all bindings. Keys of one context have one action.
func Table() []Binding {
	return []Binding{
		{Main, Send, []string{"enter"}, "send the message; while a turn runs, steer it"},
		{Main, Newline, []string{"shift+enter", "alt+enter", "ctrl+j"}, "begin a new line (also: a backslash, then Enter)"},
		{Main, Queue, []string{"tab"}, "queue the message for the next turn; in a list of suggestions, take one"},
		{Main, Interrupt, []string{"esc"}, "interrupt the running turn; twice, if none runs and the message is empty: edit an earlier message"},
		{Main, Cancel, []string{"ctrl+c"}, "clear the message, or interrupt the running turn, or leave"},
		{Main, Leave, []string{"ctrl+d"}, "leave, if the message is empty; a running turn goes on"},
		{Main, Editor, []string{"ctrl+g"}, "edit the message in $VISUAL or $EDITOR"},
		{Main, History, []string{"ctrl+r"}, "search earlier messages"},
		{Main, Fold, []string{"ctrl+o"}, "show outputs and changes in full, or folded"},
		{Main, OpenPager, []string{"ctrl+t"}, "read the whole thread in the pager: search, jump, copy"},
		{Main, PageUp, []string{"pgup"}, "scroll up by a page"},
		{Main, PageDown, []string{"pgdown"}, "scroll down by a page"},
		{Main, LineUp, []string{"shift+up"}, "scroll up by a line"},
		{Main, LineDown, []string{"shift+down"}, "scroll down by a line"},
		{Main, Top, []string{"ctrl+home"}, "scroll to the beginning"},
		{Main, Bottom, []string{"ctrl+end"}, "scroll to the end, and follow it"},
		{Main, Permissions, []string{"shift+tab"}, "next preset of approvals and sandbox"},
		{Main, LessEffort, []string{"alt+,"}, "less reasoning effort"},
		{Main, MoreEffort, []string{"alt+."}, "more reasoning effort"},
		{Main, Help, []string{"?", "f1"}, "show the keys and commands (? if the message is empty)"},
		{Main, Suspend, []string{"ctrl+z"}, "suspend the interface"},
		{Main, Redraw, []string{"ctrl+l"}, "draw the screen anew"},
		{Main, Mouse, []string{"f2"}, "let the wheel scroll, or leave the mouse to the terminal's own selection"},

		{Edit, Left, []string{"left", "ctrl+b"}, "one character to the left"},
		{Edit, Right, []string{"right", "ctrl+f"}, "one character to the right"},
		{Edit, Up, []string{"up", "ctrl+p"}, "one line up; on the first line, the earlier message"},
		{Edit, Down, []string{"down", "ctrl+n"}, "one line down; on the last line, the later message"},
		{Edit, WordLeft, []string{"alt+b", "alt+left", "ctrl+left"}, "one word to the left"},
		{Edit, WordRight, []string{"alt+f", "alt+right", "ctrl+right"}, "one word to the right"},
		{Edit, LineStart, []string{"home", "ctrl+a"}, "to the beginning of the line"},
		{Edit, LineEnd, []string{"end", "ctrl+e"}, "to the end of the line"},
		{Edit, Delete, []string{"backspace", "ctrl+h"}, "delete the character before the cursor"},
		{Edit, DeleteNext, []string{"delete"}, "delete the character after the cursor"},
		{Edit, DeleteWord, []string{"ctrl+w", "alt+backspace"}, "cut the word before the cursor"},
		{Edit, KillWord, []string{"alt+d"}, "cut the word after the cursor"},
		{Edit, KillEnd, []string{"ctrl+k"}, "cut to the end of the line"},
		{Edit, KillStart, []string{"ctrl+u"}, "cut to the beginning of the line"},
		{Edit, Yank, []string{"ctrl+y"}, "insert what was cut last"},
		{Edit, Undo, []string{"ctrl+_", "ctrl+/"}, "undo the last change of the message"},

		{List, Up, []string{"up", "ctrl+p"}, "the entry above"},
		{List, Down, []string{"down", "ctrl+n"}, "the entry below"},
		{List, Choose, []string{"enter"}, "choose the entry"},
		{List, Delete, []string{"backspace", "ctrl+h"}, "delete the last character of the search"},
		{List, Close, []string{"esc", "ctrl+c"}, "close the list"},

		{Question, Choose, []string{"enter"}, "confirm what was typed"},
		{Question, Delete, []string{"backspace", "ctrl+h"}, "delete the last character of what was typed"},
		{Question, PageUp, []string{"pgup"}, "scroll up in what is asked about"},
		{Question, PageDown, []string{"pgdown"}, "scroll down in what is asked about"},
		{Question, Close, []string{"esc", "ctrl+c"}, "refuse, and interrupt the turn"},

		{Pager, Search, []string{"/"}, "search; Enter finds the first line, Esc ends the search"},
		{Pager, FindNext, []string{"n"}, "the next line that was searched for"},
		{Pager, FindPrevious, []string{"N"}, "the one before"},
		{Pager, NextMessage, []string{"]", "tab"}, "the next message"},
		{Pager, LastMessage, []string{"[", "shift+tab"}, "the message before"},
		{Pager, CopyMessage, []string{"c", "y"}, "copy the marked message"},
		{Pager, CopyCode, []string{"b"}, "copy a block of code of the marked message; again: the next one"},
		{Pager, LineUp, []string{"up", "k", "ctrl+p", "shift+up"}, "scroll up by a line"},
		{Pager, LineDown, []string{"down", "j", "enter", "ctrl+n", "shift+down"}, "scroll down by a line"},
		{Pager, PageUp, []string{"pgup", "u", "ctrl+b"}, "scroll up by a page"},
		{Pager, PageDown, []string{"pgdown", "space", "ctrl+f"}, "scroll down by a page"},
		{Pager, Top, []string{"g", "home", "ctrl+home"}, "scroll to the beginning"},
		{Pager, Bottom, []string{"G", "end", "ctrl+end"}, "scroll to the end, and follow it"},
		{Pager, Close, []string{"q", "esc", "ctrl+c", "ctrl+t"}, "close the pager"},
	}
}

// Find returns the action of a key in a context; empty: none.
func Find(table []Binding, in Context, key string) Action {
	for _, b := range table {
		if b.Context == in && slices.Contains(b.Keys, key) {
			return b.Action
		}
	}
	return ""
}
