package attacks_test

// reach are the rows about parts of the kernel that a process needs no right for.
var reach = []row{
	{id: "P16", attempt: "a lease on a file that may only be read (F_SETLEASE): each writer outside waits 45 seconds", required: "denied", codex: "", tries: []try{
		{call: "a lease", says: notPermitted}, {call: "a lease", says: notPermitted, box: "read-only"}, {call: "a lease", says: notPermitted, box: "network"}, {call: "a lease", says: notPermitted, box: "proxy"},
	}},
	{id: "P17", attempt: "watches on what may only be read, by F_NOTIFY and fanotify", required: "denied", codex: "", tries: []try{
		{call: "a watch on a folder", says: notPermitted}, {call: "a watch on a folder", says: notPermitted, box: "network"},
		{call: "fanotify", says: notPermitted, outside: depends}, {call: "fanotify", says: notPermitted, box: "network", outside: depends},
	}},
	{id: "P18", attempt: "a user namespace, by unshare and clone, with and without a network: all capabilities over what is made in it", required: "denied", codex: "", tries: []try{
		{call: "unshare", says: notPermitted, outside: depends}, {call: "clone", says: notPermitted, outside: depends},
		{call: "unshare", says: notPermitted, box: "network", outside: depends}, {call: "clone", says: notPermitted, box: "network", outside: depends},
		{call: "unshare", says: notPermitted, box: "proxy", outside: depends}, {call: "a user namespace", says: notPermitted, box: "network", outside: depends},
		{do: `unshare -Urn true`, says: "Operation not permitted", outside: depends},
		{do: `unshare -Urn nft list ruleset`, says: "Operation not permitted", box: "network", outside: untried},
	}},
	{id: "P19", attempt: "the same by clone3, whose flags no system call filter can see", required: "there is no such call; threads and processes start without it", codex: "", tries: []try{
		{call: "clone3", says: "function not implemented"}, {call: "clone3", says: "function not implemented", box: "network"}, {call: "clone3", says: "function not implemented", box: "read-only"},
		{call: "threads and processes", works: true}, {call: "threads and processes", works: true, box: "network", outside: untried},
	}},
}
