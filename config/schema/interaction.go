package schema

// interaction describes the block of the tools with which a model addresses its user.
func interaction() *Block {
	return &Block{
		Name: BlockInteraction, Doc: "Tools with which a model addresses its user.",
		Attributes: []Attribute{
			{Name: "plan", Kind: Bool, Default: "true", Doc: "Models are offered `update_plan`, which shows the steps of their work and how far they are."},
		},
	}
}
