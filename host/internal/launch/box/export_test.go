package box

// HarmlessSettings is for tests.
var HarmlessSettings = harmlessSettings

// Walker is for tests.
type Walker struct{ w walker }

// Walk returns how many folders it knows.
func (w *Walker) Walk(root string) int {
	return w.w.walk([]string{root}).seen
}
