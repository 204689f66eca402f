package appserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gantry-agent/gantry/host/internal/event"
	"github.com/gantry-agent/gantry/host/internal/hub"
	"github.com/gantry-agent/gantry/host/internal/picture"
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
	"github.com/gantry-agent/gantry/sdk/llm"
)

// turns has the methods about turns.
type turns struct{ *Server }

// maxInput is the limit for the text of an input, in characters; that of codex.
const maxInput = 1 << 20

// input converts a user's input.
func input(parts []protocol.UserInput, context map[string]protocol.AdditionalContextEntry, clientID *string) (hub.Input, error) {
	in := hub.Input{ClientID: deref(clientID), Continue: len(parts) == 0}
	chars, left := 0, picture.MaxTotal
	for i, p := range parts {
		part, n, err := inputPart(p, &left)
		if err != nil {
			return in, rpc.Errorf(rpc.InvalidParams, "input[%d]: %v", i, err)
		}
		chars += n
		in.Parts = append(in.Parts, part)
	}
	if chars > maxInput {
		most, actual := uint64(maxInput), uint64(chars)
		e := rpc.Errorf(rpc.InvalidParams, "Input exceeds the maximum length of %d characters.", maxInput)
		e.Data = protocol.ErrorData{InputErrorCode: "input_too_large", MaxChars: &most, ActualChars: &actual}
		return in, e
	}
	for key, c := range context {
		if in.Context == nil {
			in.Context = map[string]string{}
		}
		in.Context[key] = c.Value
	}
	return in, nil
}

// inputPart converts a part of an input, and returns the number of characters of its text. left is the number of bytes that further images
// may have.
func inputPart(p protocol.UserInput, left *int) (llm.Part, int, error) {
	switch b := p.Body.(type) {
	case protocol.TextInput:
		return &llm.Text{Text: b.Text}, utf8.RuneCountInString(b.Text), nil
	case protocol.ImageInput:
		part, err := dataImage(b.URL, string(deref(b.Detail)), left)
		return part, 0, err
	case protocol.LocalImageInput:
		raw, _, err := picture.Read(b.Path, *left)
		if err != nil {
			return nil, 0, fmt.Errorf("the image %s can't be attached: %w", b.Path, err)
		}
		return imagePart(raw, filepath.Base(b.Path), deref(b.Detail), left)
	case protocol.MentionInput:
		text := fmt.Sprintf("[@%s](%s)", b.Name, b.Path)
		return &llm.Text{Text: text}, utf8.RuneCountInString(text), nil
	case protocol.SkillInput:
		text := fmt.Sprintf("[$%s](%s)", b.Name, b.Path)
		return &llm.Text{Text: text}, utf8.RuneCountInString(text), nil
	}
	return nil, 0, errors.New("it is empty")
}

func imagePart(raw []byte, name string, detail protocol.ImageDetail, left *int) (llm.Part, int, error) {
	if len(raw) > *left {
		return nil, 0, fmt.Errorf("the images of an input must not exceed %d MiB in total", picture.MaxTotal>>20)
	}
	*left -= len(raw)
	mediaType, err := picture.Check(raw)
	if err != nil {
		return nil, 0, err
	}
	return &llm.Media{MediaType: mediaType, Data: raw, Filename: name, Detail: string(detail)}, 0, nil
}

// inProgress is a turn that has just been accepted.
func inProgress(id event.TurnID) protocol.Turn {
	return protocol.Turn{ID: string(id), Items: []protocol.ThreadItem{}, ItemsView: protocol.ItemsNotLoaded, Status: protocol.TurnInProgress}
}

func (s turns) turnStart(ctx context.Context, c *call, p protocol.TurnStartParams) (out protocol.TurnStartResponse, err error) {
	in, err := input(p.Input, p.AdditionalContext, p.ClientUserMessageID)
	if err != nil {
		return out, err
	}
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	approval, sandbox, err := s.accessOf(ctx, t, access{approval: p.ApprovalPolicy, policy: p.SandboxPolicy, profile: p.Permissions})
	if err != nil {
		return out, err
	}
	change := event.Settings{Cwd: deref(p.Cwd), Model: deref(p.Model), Reasoning: deref(p.Effort), Approval: approval, Sandbox: sandbox}
	if change.Cwd != "" {
		w, err := s.workspace(&change.Cwd, nil)
		if err != nil {
			return out, err
		}
		change.Cwd = w.Dir
	}
	if err := c.follow(ctx, t); err != nil { // the caller gets the events of the turn, even if it had not subscribed
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	// A running turn takes the input; the settings apply from the next turn on.
	if st := s.cfg.Hub.Status(t.ID()); st.State == hub.Active && st.Turn != "" {
		a, err := t.Steer(ctx, st.Turn, in)
		if err == nil {
			if a.Repeated {
				out.Turn = s.repeated(ctx, t.ID(), a.Turn)
				return out, nil
			}
			if change != (event.Settings{}) {
				s.begin(func() {
					if err := t.Configure(s.life, change); err != nil {
						s.log.Warn("settings not changed", "thread", t.ID(), "err", err)
					}
				})
			}
			out.Turn = inProgress(a.Turn)
			return out, nil
		}
		if code := hub.ErrorOf(err).Code; code != hub.NoTurn && code != hub.OtherTurn && code != hub.NotSteerable {
			return out, err
		}
	}
	c.request.Release() // it may wait for the end of a turn that takes no input
	a, err := t.Submit(ctx, hub.Submission{Input: in, OutputSchema: p.OutputSchema, Settings: change, Durable: true})
	if out.Turn = inProgress(a.Turn); a.Repeated {
		out.Turn = s.repeated(ctx, t.ID(), a.Turn)
	}
	return out, err
}

// repeated is the turn of a message that was accepted before: it may have ended.
func (s *Server) repeated(ctx context.Context, thread event.ThreadID, id event.TurnID) protocol.Turn {
	out := inProgress(id)
	turns, err := s.cfg.Hub.Turns(ctx, thread)
	if err != nil {
		return out // the client learns of the end from the turn's notification
	}
	for _, t := range turns {
		if t.ID != id {
			continue
		}
		out.StartedAt = new(unix(t.Started))
		switch event.TurnStatus(t.Status) {
		case event.TurnCompleted:
			out.Status = protocol.TurnCompleted
		case event.TurnFailed:
			out.Status = protocol.TurnFailed
		case event.TurnInterrupted:
			out.Status = protocol.TurnInterrupted
		default:
			return out
		}
		out.CompletedAt = new(unix(t.Ended))
	}
	return out
}

// follow subscribes the client to a thread that runs, if it is not subscribed.
func (c *client) follow(ctx context.Context, t *hub.Thread) error {
	if c.subscribed(t.ID()) {
		return nil
	}
	last, err := c.server.lastSettled(ctx, t.ID())
	if err != nil {
		return err
	}
	f, err := c.server.feedOf(ctx, t, last)
	if err != nil {
		return err
	}
	release, err := c.subscribe(f, latest, 0, nil)
	if err != nil {
		return err
	}
	release() // the caller knows of no order between its response and what happens already
	return nil
}

func (s turns) turnSteer(ctx context.Context, c *call, p protocol.TurnSteerParams) (out protocol.TurnSteerResponse, err error) {
	if p.ExpectedTurnID == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "expectedTurnId must not be empty")
	}
	if len(p.Input) == 0 {
		return out, rpc.Errorf(rpc.InvalidRequest, "input must not be empty")
	}
	in, err := input(p.Input, p.AdditionalContext, p.ClientUserMessageID)
	if err != nil {
		return out, err
	}
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	a, err := t.Steer(ctx, event.TurnID(p.ExpectedTurnID), in)
	out.TurnID = string(a.Turn)
	if err != nil {
		return out, s.turnError(ctx, t, "steer", p.ExpectedTurnID, err)
	}
	return out, nil
}

// turnSettingsUpdate changes the settings of a turn that runs. The summary and the service tier of answers are not settings of gantry.
func (s turns) turnSettingsUpdate(ctx context.Context, c *call, p protocol.TurnSettingsUpdateParams) (out protocol.TurnSettingsUpdateResponse, err error) {
	if p.TurnID == "" {
		return out, rpc.Errorf(rpc.InvalidRequest, "turnId must not be empty")
	}
	if len(p.Environments) > 0 {
		return out, rpc.Errorf(rpc.InvalidParams, "environments: there are no other environments than this machine")
	}
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	if p.ApprovalsReviewer != nil {
		e, err := s.effective(ctx, t)
		if err != nil {
			return out, err
		}
		if *p.ApprovalsReviewer != e.reviewer() {
			return out, rpc.Errorf(rpc.InvalidParams, "approvalsReviewer can't be changed while the thread is loaded: start or resume the thread with it")
		}
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	out.Status = protocol.TurnSettingsApplied
	a := hub.Adjustment{Model: deref(p.Model), Effort: deref(p.Effort)}
	if a == (hub.Adjustment{}) {
		if st := s.cfg.Hub.Status(t.ID()); string(st.Turn) != p.TurnID {
			out.Status = protocol.TurnSettingsTargetUnavailable
		}
		return out, nil
	}
	err = t.Adjust(ctx, event.TurnID(p.TurnID), a)
	if err != nil {
		switch hub.ErrorOf(err).Code {
		case hub.NoTurn, hub.OtherTurn, hub.NotSteerable:
			out.Status, err = protocol.TurnSettingsTargetUnavailable, nil
		}
	}
	return out, err
}

// turnError gives the refusals of a turn codex's words.
func (s *Server) turnError(ctx context.Context, t *hub.Thread, verb, turn string, err error) error {
	described := hub.ErrorOf(err)
	switch described.Code {
	case hub.NoTurn:
		return rpc.Errorf(rpc.InvalidRequest, "no active turn to %s", verb)
	case hub.OtherTurn:
		return rpc.Errorf(rpc.InvalidRequest, "expected active turn id `%s` but found `%s`", turn, s.cfg.Hub.Status(t.ID()).Turn)
	case hub.NotSteerable:
		e := rpc.Errorf(rpc.InvalidRequest, "cannot steer a %s turn", described.Task)
		e.Data = protocol.ErrorData{Message: e.Message, CodexErrorInfo: &protocol.ErrorInfo{
			Kind: protocol.ErrorActiveTurnNotSteerable, NotSteerable: &protocol.NotSteerableDetails{TurnKind: protocol.NonSteerableTurnKind(described.Task)},
		}}
		return e
	}
	return err
}

func (s turns) turnInterrupt(ctx context.Context, c *call, p protocol.TurnInterruptParams) (out protocol.TurnInterruptResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	c.request.Release() // it waits for the end of the turn
	if err := t.Interrupt(ctx, event.TurnID(p.TurnID)); err != nil {
		if p.TurnID == "" && hub.ErrorOf(err).Code == hub.NoTurn {
			return out, nil
		}
		return out, s.turnError(ctx, t, "interrupt", p.TurnID, err)
	}
	return out, nil
}

func (s turns) reviewStart(ctx context.Context, c *call, p protocol.ReviewStartParams) (out protocol.ReviewStartResponse, err error) {
	t, err := s.running(ctx, p.ThreadID)
	if err != nil {
		return out, err
	}
	var target hub.ReviewTarget
	switch b := p.Target.Body.(type) {
	case protocol.ReviewUncommitted:
		target.Kind = "uncommittedChanges"
	case protocol.ReviewBaseBranch:
		target.Kind, target.Branch = "baseBranch", b.Branch
	case protocol.ReviewCommit:
		target.Kind, target.SHA = "commit", b.SHA
	case protocol.ReviewCustom:
		if strings.TrimSpace(b.Instructions) == "" {
			return out, rpc.Errorf(rpc.InvalidRequest, "instructions must not be empty")
		}
		target.Kind, target.Instructions = "custom", b.Instructions
	}
	if err := c.follow(ctx, t); err != nil {
		return out, err
	}
	release := c.hold(t.ID())
	c.afterwards(release)
	a, err := t.Review(ctx, target)
	out.Turn, out.ReviewThreadID = inProgress(a.Turn), p.ThreadID
	now := time.Now().UnixMilli()
	out.Turn.Items, out.Turn.ItemsView = []protocol.ThreadItem{{Body: protocol.UserMessageItem{
		ItemHeader: protocol.ItemHeader{ID: string(a.Turn), StartedAtMs: &now, CompletedAtMs: &now},
		Content:    []protocol.UserInput{{Body: protocol.TextInput{Text: reviewText(p.Target)}}},
	}}}, protocol.ItemsFull
	return out, err
}

// reviewText describes a review as the message with which the user would ask for it.
func reviewText(t protocol.ReviewTarget) string {
	switch b := t.Body.(type) {
	case protocol.ReviewBaseBranch:
		return fmt.Sprintf("Review the changes since %s", b.Branch)
	case protocol.ReviewCommit:
		return fmt.Sprintf("Review commit %s", b.SHA)
	case protocol.ReviewCustom:
		return b.Instructions
	}
	return "Review the uncommitted changes"
}
