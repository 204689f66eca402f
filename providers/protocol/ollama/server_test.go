package ollama_test

import (
	"reflect"
	"testing"

	"github.com/gantry-agent/gantry/providers/protocol"
	"github.com/gantry-agent/gantry/providers/protocol/ollama"
)

func TestParseTags(t *testing.T) {
	got, err := ollama.ParseTags([]byte(`{"models":[
		{"name":"qwen3:8b","model":"qwen3:8b","modified_at":"2026-01-01T00:00:00Z","size":5225388164,"digest":"500a1f067a9f","details":{"parent_model":"","format":"gguf","family":"qwen3","families":["qwen3"],"parameter_size":"8.2B","quantization_level":"Q4_K_M"}},
		{"model":"gemma3:270m"},{}]}`))
	want := []ollama.Installed{
		{Name: "qwen3:8b", Digest: "500a1f067a9f", Bytes: 5225388164, Family: "qwen3", Parameters: "8.2B", Quantization: "Q4_K_M"}, {Name: "gemma3:270m"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("models = %+v, %v, want %+v", got, err, want)
	}
	if got, err := ollama.ParseTags([]byte(`{"models":null}`)); err != nil || len(got) != 0 {
		t.Errorf("a server without models: %v, %v", got, err)
	}
	if _, err := ollama.ParseTags([]byte("Ollama is running")); err == nil {
		t.Error("a text passed for a list of models")
	}
}

func TestParseShow(t *testing.T) {
	tests := []struct {
		name, body string
		want       ollama.Details
	}{
		{
			"all that is known",
			`{"parameters":"stop                           \"<|im_end|>\"\nnum_ctx                        40960\ntemperature 0.6","details":{"family":"qwen3"},
			  "model_info":{"general.architecture":"qwen3","qwen3.context_length":262144,"qwen3.embedding_length":4096,"vision.context_length":77},"capabilities":["completion","tools","thinking"]}`,
			ollama.Details{Family: "qwen3", TrainedContext: 262144, NumCtx: 40960, Capabilities: []string{"completion", "tools", "thinking"}},
		},
		{"an older server", `{"parameters":"","details":{"family":"llama"}}`, ollama.Details{Family: "llama"}},
		{"figures that are none", `{"parameters":"num_ctx many\nnum_ctx -1","model_info":{"general.architecture":1,".context_length":-5}}`, ollama.Details{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ollama.ParseShow([]byte(tt.body))
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("details = %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
	if _, err := ollama.ParseShow([]byte(`[]`)); err == nil {
		t.Error("a list passed for a description")
	}
}

func TestDetailsMakeAModel(t *testing.T) {
	for _, tt := range []struct {
		name    string
		details ollama.Details
		want    protocol.Model
	}{
		{"plain", ollama.Details{Family: "llama", Capabilities: []string{"completion"}}, protocol.Model{ID: "m", Family: "llama"}},
		{
			"thinks and sees", ollama.Details{Family: "qwen3vl", Capabilities: []string{"vision", "thinking"}},
			protocol.Model{ID: "m", Family: "qwen3vl", Reasons: true, Input: []string{"image"}},
		},
		{
			"thinks by degrees", ollama.Details{Family: "gptoss", Capabilities: []string{"thinking"}},
			protocol.Model{ID: "m", Family: "gptoss", Reasons: true, Efforts: []string{"low", "medium", "high"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.details.Model("m"); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("model = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestParseRunning(t *testing.T) {
	got, err := ollama.ParseRunning([]byte(`{"models":[{"name":"qwen3:8b","model":"qwen3:8b","size":7,"size_vram":5,"context_length":4096,"expires_at":"x"},{"model":"old"}]}`))
	want := []ollama.Loaded{{Name: "qwen3:8b", Context: 4096, Bytes: 7, BytesVRAM: 5}, {Name: "old"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded = %+v, %v, want %+v", got, err, want)
	}
	if _, err := ollama.ParseRunning([]byte(`1`)); err == nil {
		t.Error("a number passed for a list")
	}
}

func TestSameModel(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"llama3", "llama3:latest", true}, {"llama3", "llama3:8b", false}, {"llama3:8b", "llama3:8b", true},
		{"host:5000/me/llama3", "host:5000/me/llama3:latest", true}, {"Llama3", "llama3", true}, {"a/llama3", "llama3", false},
	} {
		if got := ollama.SameModel(tt.a, tt.b); got != tt.want {
			t.Errorf("SameModel(%q, %q) = %v", tt.a, tt.b, got)
		}
	}
}

func TestContextWarning(t *testing.T) {
	for _, tt := range []struct {
		planned, loaded int64
		want            bool
	}{
		{32768, 4096, true}, {4096, 4096, false}, {4096, 32768, false}, {0, 4096, false}, {32768, 0, false},
	} {
		if got := ollama.ContextWarning("m", tt.planned, tt.loaded); (got != "") != tt.want {
			t.Errorf("planned %d, loaded %d: %q", tt.planned, tt.loaded, got)
		}
	}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte(`{"models":[{"name":"a","size":1,"context_length":2}]}`))
	f.Add([]byte(`{"parameters":"num_ctx 1","model_info":{"general.architecture":"a","a.context_length":2},"capabilities":["vision"]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if d, err := ollama.ParseShow(body); err == nil && (d.TrainedContext < 0 || d.NumCtx < 0) {
			t.Errorf("a negative context: %+v", d)
		}
		if list, err := ollama.ParseTags(body); err == nil {
			for _, m := range list {
				if m.Name == "" {
					t.Error("a model without a name")
				}
			}
		}
		ollama.ParseRunning(body)
	})
}
