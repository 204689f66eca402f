package gemini

import "testing"

func TestGenerationOf(t *testing.T) {
	tests := []struct {
		id   string
		want generation
	}{
		{"gemini-3-pro-preview", generation{gemini: true, major: 3, pro: true}},
		{"gemini-3.1-flash-lite", generation{gemini: true, major: 3}},
		{"models/gemini-2.5-pro", generation{gemini: true, major: 2, pro: true}},
		{"publishers/google/models/Gemini-2.5-Flash", generation{gemini: true, major: 2}},
		{"gemini-2-5-flash", generation{gemini: true, major: 2}},
		{"gemini-2.5-computer-use-preview-10-2025", generation{gemini: true, major: 2}},
		{"gemini-live-2.5-flash", generation{gemini: true, major: 2}},
		{"gemini-1.5-pro-002", generation{gemini: true, major: 1, pro: true}},
		{"gemini-pro", generation{gemini: true, major: 1}},
		{"gemini-pro-vision", generation{gemini: true, major: 1}},
		{"gemini-robotics-er-1.5-preview", generation{gemini: true, major: 2}},
		{"gemini-robotics-er-1.6-preview", generation{gemini: true, major: 3}},
		{"gemini-flash-latest", generation{gemini: true, major: 3}},
		{"gemini-pro-latest", generation{gemini: true, major: 3, pro: true}},
		{"gemini-4-ultra", generation{gemini: true, major: 4}},
		{"gemini-10-flash", generation{gemini: true, major: 10}},
		{"gemini-exp-1206", generation{gemini: true, major: 3}},
		{"gemma-4-31b-it", generation{}},
		{"claude-opus-5", generation{}},
		{"", generation{}},
	}
	for _, tt := range tests {
		if got := generationOf(tt.id); got != tt.want {
			t.Errorf("generationOf(%q) = %+v, want %+v", tt.id, got, tt.want)
		}
	}
}
