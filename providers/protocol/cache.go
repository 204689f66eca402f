package protocol

// Marks are the positions in a request that are marked for a vendor's prompt cache. Indices refer to the request's own lists.
type Marks struct {
	Tools, System, Messages []int // in ascending order
}

// MaxMarks is the maximum number of marks that vendors accept.
const MaxMarks = 4

// CacheMarks places the marks: at the last tool, the first and last system text, and in the last message at its last text, or
// otherwise its last part. There are at most [MaxMarks], and none if the request's cache is "none". r must be the result of
// [Normalised], because marks refer to what is sent.
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
