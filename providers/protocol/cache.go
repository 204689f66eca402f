package protocol

// Marks says where a request is marked for a vendor's prompt cache. Indices are into the request's own lists.
type Marks struct {
	Tools, System, Messages []int // in ascending order
}

// MaxMarks is how many marks a vendor takes.
const MaxMarks = 4

// CacheMarks places the marks: the last tool, the first and the last system text, the last message, where its last text
// carries it, or else its last part. That is at most [MaxMarks]. None when the request's cache is "none". r is as
// [Normalised] left it, since marks count what is sent.
func CacheMarks(r *Request) Marks {
	var m Marks
	if r.Cache == "none" {
		return m
	}
	if n := len(r.Tools); n > 0 {
		m.Tools = []int{n - 1}
	}
	if n := len(r.System); n > 0 {
		m.System = []int{0}
		if n > 1 {
			m.System = append(m.System, n-1)
		}
	}
	if n := len(r.Messages); n > 0 {
		m.Messages = []int{n - 1}
	}
	return m
}
