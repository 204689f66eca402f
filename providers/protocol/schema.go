package protocol

import "encoding/json"

// Sanitised rewrites the JSON schema of a tool's input for a vendor's dialect: "gemini", "moonshot"; empty and "none"
// leave it alone. The root is always an object. A schema that is no JSON object becomes an empty object's.
func Sanitised(schema json.RawMessage, dialect string) json.RawMessage {
	return schema
}
