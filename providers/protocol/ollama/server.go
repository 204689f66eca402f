package ollama

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/providers/protocol"
)

// Installed is a model on the server.
type Installed struct {
	Name         string
	Digest       string
	Bytes        int64
	Family       string
	Parameters   string // "8.2B"
	Quantization string // "Q4_K_M"
}

// ParseTags parses the response of /api/tags.
func ParseTags(body []byte) ([]Installed, error) {
	var list struct {
		Models []struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Digest  string `json:"digest"`
			Size    int64  `json:"size"`
			Details struct {
				Family        string `json:"family"`
				ParameterSize string `json:"parameter_size"`
				Quantization  string `json:"quantization_level"`
			} `json:"details"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list of models: %w", err)
	}
	out := make([]Installed, 0, len(list.Models))
	for _, m := range list.Models {
		name := m.Name
		if name == "" {
			name = m.Model
		}
		if name != "" {
			out = append(out, Installed{
				Name: name, Digest: m.Digest, Bytes: m.Size,
				Family: m.Details.Family, Parameters: m.Details.ParameterSize, Quantization: m.Details.Quantization,
			})
		}
	}
	return out, nil
}

// Details describe a model.
type Details struct {
	Family         string
	TrainedContext int64    // the maximum context in tokens; 0: unknown
	NumCtx         int64    // the context in the model's own settings; 0: none
	Capabilities   []string // "completion", "tools", "thinking", "vision", ...
}

// ParseShow parses the response of /api/show.
func ParseShow(body []byte) (Details, error) {
	var show struct {
		Parameters string `json:"parameters"`
		Details    struct {
			Family string `json:"family"`
		} `json:"details"`
		Info         map[string]json.RawMessage `json:"model_info"`
		Capabilities []string                   `json:"capabilities"`
	}
	if err := json.Unmarshal(body, &show); err != nil {
		return Details{}, fmt.Errorf("description of a model: %w", err)
	}
	d := Details{Family: show.Details.Family, Capabilities: show.Capabilities}
	var architecture string
	_ = json.Unmarshal(show.Info["general.architecture"], &architecture) // a value that is not a string is no name
	_ = json.Unmarshal(show.Info[architecture+".context_length"], &d.TrainedContext)
	d.TrainedContext = max(d.TrainedContext, 0)
	for line := range strings.Lines(show.Parameters) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n > 0 {
				d.NumCtx = n
			}
		}
	}
	return d, nil
}

// Model returns what a format must know about the model. Only one family of models has degrees of thinking.
func (d Details) Model(name string) protocol.Model {
	m := protocol.Model{ID: name, Family: d.Family, Reasons: slices.Contains(d.Capabilities, "thinking")}
	if m.Reasons && d.Family == "gptoss" {
		m.Efforts = []string{"low", "medium", "high"}
	}
	if slices.Contains(d.Capabilities, "vision") {
		m.Input = []string{"image"}
	}
	return m
}

// Loaded is a model that is loaded in the server's memory.
type Loaded struct {
	Name      string
	Context   int64 // in tokens; 0: unknown, as older servers do not report it
	Bytes     int64
	BytesVRAM int64
}

// ParseRunning parses the response of /api/ps.
func ParseRunning(body []byte) ([]Loaded, error) {
	var list struct {
		Models []struct {
			Name     string `json:"name"`
			Model    string `json:"model"`
			Context  int64  `json:"context_length"`
			Size     int64  `json:"size"`
			SizeVRAM int64  `json:"size_vram"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list of loaded models: %w", err)
	}
	out := make([]Loaded, 0, len(list.Models))
	for _, m := range list.Models {
		name := m.Name
		if name == "" {
			name = m.Model
		}
		out = append(out, Loaded{Name: name, Context: max(m.Context, 0), Bytes: m.Size, BytesVRAM: m.SizeVRAM})
	}
	return out, nil
}

// SameModel reports whether two names refer to the same model: a name without a tag has the tag "latest".
func SameModel(a, b string) bool { return strings.EqualFold(tagged(a), tagged(b)) }

func tagged(name string) string {
	if strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		return name
	}
	return name + ":latest"
}

// ContextWarning warns that a model is loaded with a smaller context than planned. It is empty otherwise, or if either size is
// unknown.
func ContextWarning(model string, planned, loaded int64) string {
	if planned <= 0 || loaded <= 0 || loaded >= planned {
		return ""
	}
	return fmt.Sprintf("Ollama has loaded %s with a context of %d tokens instead of %d; "+
		"set num_ctx, or OLLAMA_CONTEXT_LENGTH for the server, or reduce the planned context", model, loaded, planned)
}
