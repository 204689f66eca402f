package autorun

// Origin is what makes a path a part.
type Origin struct {
	Repositories []string // the folders of repositories: the marks in them do
	Via          []string // files and links that lead there
	Named        string   // the path as settings name it, on which links may lie
	Top          string   // the folders between this one and the part do; empty: none
}
