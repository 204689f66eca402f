package vendors

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// bedrock is Amazon Bedrock's ConverseStream, for models of Anthropic.
type bedrock struct{ nothing }

// An account's credentials, by which requests are signed in place of [Key].
const (
	AccessKeyID     = "AKIALOOPBACK00000000"
	SecretAccessKey = "loopback/secret+0123456789abcdef0123456789"
	SessionToken    = "loopback//session+token=="
	Region          = "us-east-1"
)

func (bedrock) schema() string { return "bedrock-converse" }

var converseStream = regexp.MustCompile(`^/model/[A-Za-z0-9.%_-]+/converse-stream$`)

func (bedrock) admit(r *http.Request) error {
	switch path := r.URL.EscapedPath(); {
	case !converseStream.MatchString(path):
		return fmt.Errorf("path %s", path)
	case r.Header.Get("Accept") != eventStream:
		return fmt.Errorf("accept %q", r.Header.Get("Accept"))
	case r.Header.Get("Authorization") == "Bearer "+Key:
		return nil
	}
	return signed(r)
}

var signatureV4 = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=([^/]+)/([0-9]{8})/([a-z0-9-]+)/([a-z]+)/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$`)

// signed checks a signature by the steps of Signature Version 4: a canonical request, what is to be signed of it, and a key
// that is derived from the day, the region and the service.
func signed(r *http.Request) error {
	m := signatureV4.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		return errors.New("missing authentication token")
	}
	id, day, region, service, names, got := m[1], m[2], m[3], m[4], strings.Split(m[5], ";"), m[6]
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	switch {
	case id != AccessKeyID || region != Region || service != "bedrock":
		return fmt.Errorf("the security token included in the request is invalid: %s in %s for %s", id, region, service)
	case err != nil || !strings.HasPrefix(date, day) || time.Since(at).Abs() > 5*time.Minute:
		return fmt.Errorf("signature expired: %s", date)
	case r.Header.Get("X-Amz-Security-Token") != SessionToken:
		return errors.New("the security token is not that of the credentials")
	case !slices.IsSorted(names):
		return fmt.Errorf("signed headers %q are not in order", names)
	}
	for _, must := range []string{"host", "x-amz-date", "x-amz-security-token"} {
		if !slices.Contains(names, must) {
			return fmt.Errorf("the header %s must be signed", must)
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	canonical := []string{r.Method, encodedAgain(r.URL.EscapedPath()), r.URL.Query().Encode()}
	for _, n := range names {
		value := strings.Join(r.Header.Values(n), ",")
		if n == "host" {
			value = r.Host
		}
		canonical = append(canonical, n+":"+strings.TrimSpace(value))
	}
	canonical = append(canonical, "", m[5], hash(body))
	scope := strings.Join([]string{day, region, service, "aws4_request"}, "/")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hash([]byte(strings.Join(canonical, "\n")))}, "\n")
	key := []byte("AWS4" + SecretAccessKey)
	for _, part := range []string{day, region, service, "aws4_request", toSign} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if hex.EncodeToString(key) != got {
		return errors.New("the request signature we calculated does not match the signature you provided")
	}
	return nil
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// encodedAgain encodes each part of a path that is encoded already, as all services but one want it.
func encodedAgain(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(url.QueryEscape(p), "+", "%20")
	}
	return strings.Join(parts, "/")
}

func (bedrock) failure(status int, message string) any {
	if status == http.StatusForbidden {
		return map[string]any{"Message": message}
	}
	return map[string]any{"message": message}
}

var (
	converseName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	converseTitle = regexp.MustCompile(`^[A-Za-z0-9()\[\]-]+( [A-Za-z0-9()\[\]-]+)*$`)
)

func (f bedrock) check(body map[string]any, issued []Answer) error {
	var names []string
	points := 0
	for _, v := range list(object(body["toolConfig"])["tools"]) {
		spec := object(object(v)["toolSpec"])
		if spec == nil {
			points++
			continue
		}
		names = append(names, text(spec["name"]))
		if err := parameters(text(spec["name"]), object(object(spec["inputSchema"])["json"])); err != nil {
			return err
		}
	}
	if err := toolNames(names, converseName); err != nil {
		return err
	}
	thoughts, more, err := f.conversation(body)
	if err != nil {
		return err
	}
	for _, v := range list(body["system"]) {
		if object(object(v)["cachePoint"]) != nil {
			points++
		} else if strings.TrimSpace(text(object(v)["text"])) == "" {
			return errors.New("the text field in the system content is blank")
		}
	}
	if points += more; points > 4 {
		return fmt.Errorf("%d cache points, at most 4", points)
	}
	known := map[string]string{}
	for n, a := range issued {
		sign := sealed("proof", n+1)
		known[sign] = a.Reasoning
		if _, came := thoughts[sign]; a.Reasoning != "" && len(a.Calls) > 0 && !came {
			return fmt.Errorf("the reasoning of answer %d did not come back", n+1)
		}
	}
	for sign, thought := range thoughts {
		if was, ok := known[sign]; !ok || was != thought {
			return fmt.Errorf("the reasoning %q with the signature %q is not what the model wrote", thought, sign)
		}
	}
	return nil
}

// conversation checks the messages, and returns what was thought, by its signature, and how many cache points there are.
func (f bedrock) conversation(body map[string]any) (thoughts map[string]string, points int, err error) {
	messages := list(body["messages"])
	thoughts = map[string]string{}
	var open, used, titles []string
	for i, v := range messages {
		m, at := object(v), fmt.Sprintf("messages.%d", i)
		if want := []string{"user", "assistant"}[i%2]; m["role"] != want {
			return nil, 0, fmt.Errorf("%s: roles must alternate between user and assistant, and the first must be user", at)
		}
		blocks := list(m["content"])
		if len(blocks) == 0 {
			return nil, 0, fmt.Errorf("%s: the content is empty", at)
		}
		var asked, answered []string
		documents, texts := 0, 0
		for j, b := range blocks {
			block := object(b)
			use, result, said := object(block["toolUse"]), object(block["toolResult"]), block["text"]
			thought := object(object(block["reasoningContent"])["reasoningText"])
			switch {
			case (use != nil || result != nil) && len(list(object(body["toolConfig"])["tools"])) == 0:
				return nil, 0, errors.New("the toolConfig field must be defined when using toolUse and toolResult content blocks")
			case use != nil:
				id := text(use["toolUseId"])
				if !converseName.MatchString(id) || slices.Contains(used, id) || object(use["input"]) == nil || m["role"] != "assistant" {
					return nil, 0, fmt.Errorf("%s.content.%d: toolUse %q", at, j, id)
				}
				asked, used = append(asked, id), append(used, id)
			case result != nil:
				if len(answered) != j {
					return nil, 0, fmt.Errorf("%s.content.%d: results come first", at, j)
				}
				answered = append(answered, text(result["toolUseId"]))
				for _, c := range list(result["content"]) {
					if err := f.media(object(c), &titles); err != nil {
						return nil, 0, fmt.Errorf("%s.content.%d: %w", at, j, err)
					}
				}
				if len(list(result["content"])) == 0 {
					return nil, 0, fmt.Errorf("%s.content.%d: the content of a toolResult is empty", at, j)
				}
			case thought != nil:
				thoughts[text(thought["signature"])] = text(thought["text"])
				if j == len(blocks)-1 {
					return nil, 0, fmt.Errorf("%s: the final block in an assistant message cannot be thinking", at)
				}
			case said != nil:
				if texts++; strings.TrimSpace(text(said)) == "" {
					return nil, 0, fmt.Errorf("%s.content.%d: the text field in the ContentBlock object is blank", at, j)
				}
			case object(block["cachePoint"]) != nil:
				points++
			default:
				if block["document"] != nil {
					documents++
				}
				if err := f.media(block, &titles); err != nil {
					return nil, 0, fmt.Errorf("%s.content.%d: %w", at, j, err)
				}
			}
		}
		if documents > 0 && texts == 0 {
			return nil, 0, fmt.Errorf("%s: a text block is required beside documents", at)
		}
		slices.Sort(answered)
		slices.Sort(open)
		if !slices.Equal(answered, open) {
			return nil, 0, fmt.Errorf("%s: expected toolResult blocks for the ids %v, got %v", at, open, answered)
		}
		open = asked
	}
	if len(messages)%2 == 0 {
		return nil, 0, errors.New("a conversation must start and end with a user message")
	}
	return thoughts, points, nil
}

// media checks pictures and documents.
func (bedrock) media(block map[string]any, titles *[]string) error {
	if image := object(block["image"]); image != nil {
		return picture(text(object(image["source"])["bytes"]), "image/"+text(image["format"]), webPictures...)
	}
	if d := object(block["document"]); d != nil {
		name := text(d["name"])
		if !converseTitle.MatchString(name) || slices.Contains(*titles, name) {
			return fmt.Errorf("document name %q", name)
		}
		*titles = append(*titles, name)
	}
	return nil
}

// eventStream is the label of binary frames.
const eventStream = "application/vnd.amazon.eventstream"

// binaryFrame is a message of an event stream. All its headers are texts.
func binaryFrame(payload []byte, headers ...string) []byte {
	var h bytes.Buffer
	for i := 0; i < len(headers); i += 2 {
		h.WriteByte(byte(len(headers[i])))
		h.WriteString(headers[i])
		h.WriteByte(7) // text
		h.Write(binary.BigEndian.AppendUint16(nil, uint16(len(headers[i+1]))))
		h.WriteString(headers[i+1])
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+h.Len()+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(h.Len()))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h.Bytes()...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func converseEvent(name string, payload []byte) []byte {
	return binaryFrame(payload, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

// send adds an event. Padding hides how long a piece is.
func (bedrock) send(s *stream, name string, fields map[string]any) {
	s.contentType = eventStream
	fields["p"] = strings.Repeat("abcdefgh", 1+len(s.pieces)%3)
	s.pieces = append(s.pieces, converseEvent(name, marshal(fields)))
}

func (f bedrock) delta(s *stream, index int, delta map[string]any) {
	f.send(s, "contentBlockDelta", map[string]any{"contentBlockIndex": index, "delta": delta})
}

func (f bedrock) start(s *stream, n, index, i int, c Call) {
	use := map[string]any{"toolUseId": fmt.Sprintf("tooluse_%d_%d", n, i), "name": c.Name}
	f.send(s, "contentBlockStart", map[string]any{"contentBlockIndex": index, "start": map[string]any{"toolUse": use}})
}

func (f bedrock) stop(s *stream, index int) {
	f.send(s, "contentBlockStop", map[string]any{"contentBlockIndex": index})
}

func (f bedrock) write(s *stream, n int, a Answer) {
	f.send(s, "messageStart", map[string]any{"role": "assistant"})
	index := 0
	if a.Reasoning != "" {
		for _, h := range halves(a.Reasoning) {
			f.delta(s, index, map[string]any{"reasoningContent": map[string]any{"text": h}})
		}
		f.delta(s, index, map[string]any{"reasoningContent": map[string]any{"signature": sealed("proof", n)}})
		f.stop(s, index)
		index++
	}
	if a.Text != "" {
		for _, h := range halves(a.Text) {
			f.delta(s, index, map[string]any{"text": h})
		}
		s.repeats()
		f.stop(s, index)
		index++
	}
	for i, c := range a.Calls {
		f.start(s, n, index, i, c)
		for _, h := range halves(string(marshal(c.Args))) {
			f.delta(s, index, map[string]any{"toolUse": map[string]any{"input": h}})
		}
		f.stop(s, index)
		index++
	}
	f.finish(s, n, a)
}

// muddle opens all blocks at once, numbers them backwards, and speaks of blocks that there are none of.
func (f bedrock) muddle(s *stream, n int, a Answer) {
	f.send(s, "messageStart", map[string]any{"role": "assistant"})
	f.delta(s, 77, map[string]any{"toolUse": map[string]any{"input": "{"}})
	last := len(a.Calls)
	for i, c := range a.Calls {
		f.start(s, n, i, i, c)
	}
	for j := range 2 {
		f.delta(s, last, map[string]any{"text": halves(a.Text)[j]})
		for i, c := range a.Calls {
			f.delta(s, i, map[string]any{"toolUse": map[string]any{"input": halves(string(marshal(c.Args)))[j]}})
		}
	}
	f.stop(s, 78)
	for i := range last + 1 {
		f.stop(s, i)
	}
	f.finish(s, n, a)
}

// finish ends an answer. The figures come behind its end.
func (f bedrock) finish(s *stream, n int, a Answer) {
	reason := "end_turn"
	if len(a.Calls) > 0 {
		reason = "tool_use"
	}
	switch a.Stop {
	case Filtered:
		reason = "content_filtered"
	case AtLimit:
		reason = "max_tokens"
	}
	s.completes()
	f.send(s, "messageStop", map[string]any{"stopReason": reason})
	f.send(s, "metadata", map[string]any{
		"usage": map[string]any{
			"inputTokens": 90 * n, "outputTokens": 20, "totalTokens": 100*n + 20, "cacheReadInputTokens": 10 * n, "cacheWriteInputTokens": 0,
		},
		"metrics": map[string]any{"latencyMs": cmp.Or(n, 1)},
	})
}
