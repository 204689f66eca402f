package autorun

// Origin says what makes a file matter, so that it can be moved aside instead of the file.
type Origin struct {
	Repositories []string // folders that are repositories because of the marks in them
	Via          []string // files and symbolic links that lead to the file
	Named        string   // the file's path as settings name it, which may lead through links
	Top          string   // the folder whose name, or that of one below it, makes the file matter; empty: none
}
