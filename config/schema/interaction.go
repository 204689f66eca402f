package schema

// terminal describes the block of the terminal interface.
func terminal() *Block {
	return &Block{
		Name: BlockTUI, Doc: "The terminal interface.",
		Attributes: []Attribute{
			{Name: "history", Kind: Bool, Default: "true", Doc: "Messages that you send, and the one that you write, are kept in gantry's home folder, " +
				"so that ↑ and Ctrl-R find them in later threads and a crash loses nothing. What looks like a secret is not kept."},
			{Name: "theme", Kind: String, Default: `"terminal"`, Allowed: []string{"terminal", "light", "dark", "mono"}, Doc: "Colours: the 16 of the " +
				"terminal, as you have set them there; those for a light or a dark background; or none."},
			{Name: "screen_reader", Kind: Bool, Default: "false", Doc: "What happens is written line by line, each message with its role, without boxes and " +
				"marks, and nothing is drawn again while you listen."},
		},
		Blocks: []*Block{{Name: BlockKeys, Open: Variables,
			Doc: "Keys of actions, separated by spaces: `pager = \"f3 ctrl+t\"`. They replace those of the action; an empty text leaves it without a key. " +
				"The guide of the terminal interface lists the names of actions. A key that has two meanings, and a name that does not exist, is reported " +
				"when the interface starts."}},
	}
}

// interaction describes the block of the tools with which a model addresses its user.
func interaction() *Block {
	return &Block{
		Name: BlockInteraction, Doc: "Tools with which a model addresses its user.",
		Attributes: []Attribute{
			{Name: "plan", Kind: Bool, Default: "true", Doc: "Models are offered `update_plan`, which shows the steps of their work and how far they are."},
		},
	}
}

// goals describes the block of the goals of threads.
func goals() *Block {
	return &Block{
		Name: BlockGoals, Doc: "Goals of threads, towards which a thread continues by itself.",
		Attributes: []Attribute{
			{Name: "enabled", Kind: Bool, Default: "true", Doc: "Threads can have goals, and models are offered `get_goal`, `create_goal` and `update_goal`."},
			{Name: "max_tokens", Kind: Integer, Default: "0", Doc: "The most tokens that may be used for a goal: input that was not cached, and output. It is also the budget " +
				"of goals that are set without one. 0: unlimited."},
		},
	}
}
