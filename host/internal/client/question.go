package client

import (
	"encoding/json"

	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/rpc"
)

// Question is a request of the server to a person.
type Question struct {
	ID string
	// Params are *CommandExecutionRequestApprovalParams, *FileChangeRequestApprovalParams, *PermissionsRequestApprovalParams,
	// *ToolRequestUserInputParams or *MCPServerElicitationRequestParams.
	Params any
	Thread string
	Item   string // of the call that asks; empty: unknown
	Turn   string
}

// Questions are the names of the requests that [ParseQuestion] knows.
func Questions() []string {
	return []string{
		protocol.RequestCommandExecutionApproval.Name, protocol.RequestFileChangeApproval.Name, protocol.RequestPermissionsApproval.Name,
		protocol.RequestUserInput.Name, protocol.RequestElicitation.Name,
	}
}

// ParseQuestion reads a request of the server.
func ParseQuestion(id, method string, params json.RawMessage) (Question, error) {
	q := Question{ID: id}
	switch method {
	case protocol.RequestCommandExecutionApproval.Name:
		q.Params = new(protocol.CommandExecutionRequestApprovalParams)
	case protocol.RequestFileChangeApproval.Name:
		q.Params = new(protocol.FileChangeRequestApprovalParams)
	case protocol.RequestPermissionsApproval.Name:
		q.Params = new(protocol.PermissionsRequestApprovalParams)
	case protocol.RequestUserInput.Name:
		q.Params = new(protocol.ToolRequestUserInputParams)
	case protocol.RequestElicitation.Name:
		q.Params = new(protocol.MCPServerElicitationRequestParams)
	default:
		return q, rpc.Errorf(rpc.MethodNotFound, "method not found: %s", method)
	}
	var of struct {
		ThreadID, TurnID, ItemID string
	}
	if err := json.Unmarshal(params, &of); err != nil {
		return q, err
	}
	if err := json.Unmarshal(params, q.Params); err != nil {
		return q, err
	}
	q.Thread, q.Turn, q.Item = of.ThreadID, of.TurnID, of.ItemID
	return q, nil
}
