package acp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	acp "github.com/coder/acp-go-sdk"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// maxInput bounds the text of a prompt, in characters, as the app server does.
const maxInput = 1 << 20

// blockTypes are the types of prompt blocks that the protocol has.
func blockTypes() []string { return []string{"text", "image", "audio", "resource_link", "resource"} }

// input converts the blocks of a prompt. An error names the block and the field.
func input(blocks []json.RawMessage) (hub.Input, error) {
	var in hub.Input
	if len(blocks) == 0 {
		return in, invalid("prompt", "it must not be empty")
	}
	chars, left := 0, picture.MaxTotal
	var contexts []llm.Part // embedded files follow the message that mentions them
	for i, raw := range blocks {
		at := fmt.Sprintf("prompt[%d]", i)
		b, err := block(at, raw)
		if err != nil {
			return hub.Input{}, err
		}
		switch {
		case b.Text != nil:
			in.Parts = append(in.Parts, &llm.Text{Text: b.Text.Text})
		case b.Image != nil:
			part, err := imagePart(at+".data", b.Image.Data, "", &left)
			if err != nil {
				return hub.Input{}, err
			}
			in.Parts = append(in.Parts, part)
		case b.ResourceLink != nil:
			in.Parts = append(in.Parts, &llm.Text{Text: link(b.ResourceLink.Name, b.ResourceLink.Uri)})
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			in.Parts = append(in.Parts, &llm.Text{Text: link("", r.Uri)})
			contexts = append(contexts, &llm.Text{Text: fmt.Sprintf("\n<context ref=%q>\n%s\n</context>", place(r.Uri), r.Text)})
		case b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil:
			r := b.Resource.Resource.BlobResourceContents
			part, err := imagePart(at+".resource.blob", r.Blob, path.Base(place(r.Uri)), &left)
			if err != nil {
				return hub.Input{}, err
			}
			in.Parts = append(in.Parts, part)
		case b.Audio != nil:
			return hub.Input{}, invalid(at+".type", "audio is not supported: initialize does not offer it")
		default:
			return hub.Input{}, invalid(at, "its fields are missing or have other types")
		}
	}
	in.Parts = append(in.Parts, contexts...)
	for _, p := range in.Parts {
		if t, ok := p.(*llm.Text); ok {
			chars += utf8.RuneCountInString(t.Text)
		}
	}
	if chars > maxInput {
		return hub.Input{}, invalid("prompt", "it has %d characters; at most %d are accepted", chars, maxInput)
	}
	if chars == 0 && !slices.ContainsFunc(in.Parts, func(p llm.Part) bool { _, ok := p.(*llm.Media); return ok }) {
		return hub.Input{}, invalid("prompt", "it must not be empty")
	}
	return in, nil
}

// required are the members that blocks of a type must have.
func required(kind string) []string {
	return map[string][]string{
		"text": {"text"}, "image": {"data", "mimeType"}, "resource_link": {"name", "uri"}, "resource": {"resource"},
	}[kind]
}

// block decodes a block. The SDK would accept one of an unknown type that has the fields of a known one, and one without its fields.
func block(at string, raw json.RawMessage) (b acp.ContentBlock, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return b, invalid(at, "it must be an object with a type")
	}
	var kind string
	if json.Unmarshal(members["type"], &kind) != nil || !slices.Contains(blockTypes(), kind) {
		return b, invalid(at+".type", "it must be one of %s", strings.Join(blockTypes(), ", "))
	}
	for _, name := range required(kind) {
		var text string
		switch {
		case members[name] == nil:
			return b, invalid(at+"."+name, "it is missing")
		case kind != "resource" && json.Unmarshal(members[name], &text) != nil:
			return b, invalid(at+"."+name, "it must be a string")
		}
	}
	if kind == "resource" {
		var r map[string]json.RawMessage
		if json.Unmarshal(members["resource"], &r) != nil || r["uri"] == nil || r["text"] == nil && r["blob"] == nil {
			return b, invalid(at+".resource", "it must have a uri, and a text or a blob")
		}
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return b, invalid(at, "the fields of a block of type %s have other types", kind)
	}
	if r := b.Resource; r != nil && r.Resource.TextResourceContents == nil && r.Resource.BlobResourceContents == nil {
		return b, invalid(at+".resource", "it must have a uri, and a text or a blob")
	}
	return b, nil
}

func imagePart(field, data, name string, left *int) (llm.Part, error) {
	if base64.StdEncoding.DecodedLen(len(data)) > *left+2 {
		return nil, invalid(field, "the images of a prompt must not exceed %d MiB in total", picture.MaxTotal>>20)
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, invalid(field, "it is not base64: %v", err)
	}
	mediaType, err := picture.Check(raw)
	if err != nil {
		return nil, invalid(field, "the image can't be used: %v", err)
	}
	*left -= len(raw)
	return &llm.Media{MediaType: mediaType, Data: raw, Filename: name}, nil
}

// link returns a mention of a resource, as the model reads it.
func link(name, uri string) string {
	at := place(uri)
	if name == "" {
		name = path.Base(at)
	}
	return fmt.Sprintf("[@%s](%s)", name, at)
}

// place returns the path of a file: URI with its fragment, such as lines, and any other URI as it is.
func place(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return uri
	}
	if u.Fragment != "" {
		return u.Path + "#" + u.Fragment
	}
	return u.Path
}

// textOf returns the text of an input, as the thread's item has it.
func textOf(in hub.Input) string {
	var b strings.Builder
	for _, p := range in.Parts {
		if t, ok := p.(*llm.Text); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// command returns the slash command that an input consists of, and its arguments; "": it is none of ours.
func command(in hub.Input) (name, args string) {
	if len(in.Parts) != 1 {
		return "", ""
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(textOf(in)), "/")
	if !ok {
		return "", ""
	}
	name, args, _ = strings.Cut(text, " ")
	for _, c := range commands() {
		if c.Name == name {
			return name, strings.TrimSpace(args)
		}
	}
	return "", ""
}

// commands are the slash commands that editors offer.
func commands() []acp.AvailableCommand {
	takes := func(text string) *acp.AvailableCommandInput {
		return &acp.AvailableCommandInput{Unstructured: &acp.UnstructuredCommandInput{Hint: text}}
	}
	return []acp.AvailableCommand{
		{Name: "compact", Description: "Shorten the conversation"},
		{Name: "review", Description: "Review the uncommitted changes", Input: takes("branch NAME, commit SHA, or what to look at")},
		{Name: "undo", Description: "Restore the files that the last turn changed"},
		{Name: "redo", Description: "Undo the last undo"},
		{Name: "rename", Description: "Name the session", Input: takes("the name")},
	}
}

// reviewTarget converts the arguments of the command review.
func reviewTarget(args string) (hub.ReviewTarget, error) {
	first, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case args == "":
		return hub.ReviewTarget{Kind: "uncommittedChanges"}, nil
	case first == "branch" && rest != "" && !strings.Contains(rest, " "):
		return hub.ReviewTarget{Kind: "baseBranch", Branch: rest}, nil
	case first == "commit" && rest != "" && !strings.Contains(rest, " "):
		return hub.ReviewTarget{Kind: "commit", SHA: rest}, nil
	case args == "branch" || args == "commit":
		return hub.ReviewTarget{}, errors.New("/review " + args + ": the name is missing")
	}
	return hub.ReviewTarget{Kind: "custom", Instructions: args}, nil
}
