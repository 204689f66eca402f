package protocol

import "github.com/gantry-agent/gantry/sdk/llm"

// Marks are the positions in a request that are marked for a vendor's prompt cache. Indices refer to the request's own lists.
type Marks struct {
	Tools, System, Messages []int // in ascending order
}

// MaxMarks is the maximum number of marks that vendors accept.
const MaxMarks = 4

// CacheMarks places the marks: at the first and last system text, or if there is none at the last tool; in the last message at its
// last text, or otherwise its last part; and likewise in the message that was the last one of the request before. A vendor looks
// for a cached prefix only some 20 blocks before a mark, and an answer with many calls is longer than that.
//
// There are at most [MaxMarks], and none if the request's cache is "none". r must be the result of [Normalised], because marks refer
// to what is sent.
func CacheMarks(r *Request) Marks {
	var m Marks
	if r.Cache == "none" {
		return m
	}
	if n := len(r.System); n > 0 {
		m.System = []int{0}
		if n > 1 {
			m.System = append(m.System, n-1)
		}
	} else if n := len(r.Tools); n > 0 { // otherwise the tools are part of what the first system text ends
		m.Tools = []int{n - 1}
	}
	if n := len(r.Messages); n > 0 {
		if before := lastAsked(r.Messages); before >= 0 {
			m.Messages = []int{before}
		}
		m.Messages = append(m.Messages, n-1)
	}
	return m
}

// lastAsked returns the index of the message that the last answer in the history responds to, or -1.
func lastAsked(messages []llm.Message) int {
	for i := len(messages) - 2; i > 0; i-- { // if the answer is last, it is continued, and marked itself
		if messages[i].Role == llm.RoleAssistant {
			return i - 1
		}
	}
	return -1
}
