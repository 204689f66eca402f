package protocol

// UserInput is a part of a user's input: one of the types of this file whose names end with Input.
type UserInput struct{ Body UserInputBody }

// UserInputBody is the body of a part.
type UserInputBody interface{ variant }

func (i UserInput) MarshalJSON() ([]byte, error)  { return Marshal(i) }
func (i *UserInput) UnmarshalJSON(b []byte) error { return unmarshal(b, i) }
func (UserInput) variants() variants              { return userInputs }

var userInputs = variantsOf(TextInput{}, ImageInput{}, LocalImageInput{}, SkillInput{}, MentionInput{})

// TextInput is text.
type TextInput struct {
	Text         string        `json:"text"`
	TextElements []TextElement `json:"text_elements,omitempty"`
}

func (TextInput) kind() string { return "text" }

// TextElement is a part of a text that clients display in another form, such as a mention.
type TextElement struct {
	ByteRange   ByteRange `json:"byteRange"`
	Placeholder *string   `json:"placeholder"`
}

// ByteRange is a half-open range of bytes.
type ByteRange struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// ImageInput is an image.
type ImageInput struct {
	URL    string       `json:"url"` // a data URL
	Detail *ImageDetail `json:"detail,omitempty"`
}

func (ImageInput) kind() string { return "image" }

// ImageDetail is the resolution at which the model sees an image.
type ImageDetail string

// Details of images.
const (
	DetailAuto     ImageDetail = "auto"
	DetailLow      ImageDetail = "low"
	DetailHigh     ImageDetail = "high"
	DetailOriginal ImageDetail = "original"
)

func (ImageDetail) values() []string { return names(DetailAuto, DetailLow, DetailHigh, DetailOriginal) }

// LocalImageInput is an image file on the server's machine.
type LocalImageInput struct {
	Path   string       `json:"path"`
	Detail *ImageDetail `json:"detail,omitempty"`
}

func (LocalImageInput) kind() string { return "localImage" }

// SkillInput refers to a skill.
type SkillInput struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (SkillInput) kind() string { return "skill" }

// MentionInput refers to a file, an app or an agent.
type MentionInput struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (MentionInput) kind() string { return "mention" }
