package vendors

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// maxTools is how many tools a request may offer.
const maxTools = 128

// toolNames checks the tools that a request offers: how many there are, and that each has a name of its own of this form.
func toolNames(names []string, form *regexp.Regexp) error {
	if len(names) > maxTools {
		return fmt.Errorf("tools: array too long, %d of at most %d", len(names), maxTools)
	}
	for i, n := range names {
		if !form.MatchString(n) {
			return fmt.Errorf("tools[%d].name: %q does not match %s", i, n, form)
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("tools[%d].name: %q is not unique", i, n)
		}
	}
	return nil
}

// parameters checks the schema of a tool's arguments: an object, no choice at its top, arrays that say of what.
func parameters(name string, schema map[string]any) error {
	if schema["type"] != "object" {
		return fmt.Errorf("tool %s: schema must have type \"object\", got %v", name, schema["type"])
	}
	for _, word := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if schema[word] != nil {
			return fmt.Errorf("tool %s: schema must not have %s at the top level", name, word)
		}
	}
	return arrays(name, schema)
}

func arrays(at string, v any) error {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if err := arrays(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
				return err
			}
		}
	case map[string]any:
		if v["type"] == "array" && v["items"] == nil && v["prefixItems"] == nil {
			return fmt.Errorf("tool %s: array schema missing items", at)
		}
		for k, e := range v {
			if err := arrays(at+"."+k, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// picture checks that data is base64 of a picture of the type that it is said to be, and of one that the vendor takes.
func picture(data, mediaType string, taken ...string) error {
	b, err := base64.StdEncoding.DecodeString(data)
	switch {
	case err != nil:
		return fmt.Errorf("image: invalid base64: %w", err)
	case !slices.Contains(taken, mediaType):
		return fmt.Errorf("image: %q is none of %s", mediaType, strings.Join(taken, ", "))
	case slices.Contains(webPictures, mediaType) && http.DetectContentType(b) != mediaType:
		return fmt.Errorf("image: it does not match the media type %s", mediaType)
	}
	return nil
}

// dataURL takes a data URL apart.
func dataURL(url string) (data, mediaType string, ok bool) {
	head, data, found := strings.Cut(strings.TrimPrefix(url, "data:"), ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	return data, mediaType, found && encoded && strings.HasPrefix(url, "data:")
}

var webPictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
