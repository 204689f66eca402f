package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Version is the version of codex's app server whose protocol this package describes.
const Version = "0.169.0"

// MethodSpec describes a method that clients call.
type MethodSpec struct {
	Name         string
	Params       reflect.Type // a struct; [NoParams] if the method has none
	Result       reflect.Type
	Experimental bool // the method needs the capability experimentalApi
	// Reads: the method changes nothing, so that processes which the host has started may call it too.
	Reads bool
	Key   Key
	Since string // the [Version] that introduced it
}

// Method is a [MethodSpec] with the types of its parameters and of its result.
type Method[P, R any] struct{ *MethodSpec }

// NotificationSpec describes a notification that the server sends.
type NotificationSpec struct {
	Name         string
	Params       reflect.Type
	Experimental bool // it is sent only to clients with the capability experimentalApi
	Scope        Scope
	Since        string
	unsent       bool
}

// Notification is a [NotificationSpec] with the type of its parameters.
type Notification[P any] struct{ *NotificationSpec }

// ServerRequestSpec describes a request that the server sends to a client.
type ServerRequestSpec struct {
	Name         string
	Params       reflect.Type
	Result       reflect.Type
	Experimental bool
	Since        string
	unsent       bool
}

// ServerRequest is a [ServerRequestSpec] with the types of its parameters and of its result.
type ServerRequest[P, R any] struct{ *ServerRequestSpec }

// Scope says which connections receive a notification.
type Scope int

// Scopes.
const (
	ToAll         Scope = iota + 1 // all initialized connections
	ToSubscribers                  // those that are subscribed to the thread
	ToConnection                   // the one whose request caused it
)

func (s Scope) String() string {
	switch s {
	case ToAll:
		return "all connections"
	case ToSubscribers:
		return "subscribers"
	case ToConnection:
		return "the connection concerned"
	}
	return fmt.Sprintf("Scope(%d)", int(s))
}

// Key says which requests are processed one at a time, in the order in which they arrived: those with the same key. The zero Key is none:
// such requests are processed concurrently.
type Key struct {
	Family string // "thread", "config", …
	Field  string // the field of the parameters that names the object, as in JSON; empty: the family has one key
	Shared bool   // consecutive shared requests of a key are processed concurrently
	Local  bool   // each connection has keys of its own
}

// Of returns the key of a request with these parameters, which need not be valid. It is empty if the request has none.
func (k Key) Of(params json.RawMessage) string {
	if k.Field == "" {
		return k.Family
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(params, &fields) // then the request will be refused
	var object string
	_ = json.Unmarshal(fields[k.Field], &object)
	return k.Family + ":" + object
}

// String describes the requests that have the same key.
func (k Key) String() string {
	s := k.Family
	if k.Field != "" {
		s = "the same `" + k.Field + "`"
	}
	if k.Local {
		s += " of the connection"
	}
	if k.Shared {
		s += " (readers run together)"
	}
	return s
}

func byThread() Key { return Key{Family: "thread", Field: "threadId"} }

func byConfig() Key       { return Key{Family: "config"} }
func byConfigShared() Key { return Key{Family: "config", Shared: true} }

// local returns a key of one connection.
func local(family, field string) Key { return Key{Family: family, Field: field, Local: true} }

// mark is a property of a row.
type mark int

const (
	experimental mark = iota + 1
	reads             // of methods
	unsent            // of what no part of gantry sends yet
)

func method[P, R any](name string, key Key, marks ...mark) Method[P, R] {
	m := &MethodSpec{
		Name: name, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Experimental: slices.Contains(marks, experimental),
		Reads: slices.Contains(marks, reads), Key: key, Since: Version,
	}
	return Method[P, R]{m}
}

func notification[P any](name string, scope Scope, marks ...mark) Notification[P] {
	return Notification[P]{&NotificationSpec{
		Name: name, Params: reflect.TypeFor[P](), Experimental: slices.Contains(marks, experimental), Scope: scope, Since: Version,
		unsent: slices.Contains(marks, unsent),
	}}
}

func serverRequest[P, R any](name string, marks ...mark) ServerRequest[P, R] {
	return ServerRequest[P, R]{&ServerRequestSpec{
		Name: name, Params: reflect.TypeFor[P](), Result: reflect.TypeFor[R](), Experimental: slices.Contains(marks, experimental), Since: Version,
		unsent: slices.Contains(marks, unsent),
	}}
}

// NoParams are the parameters of a method that has none: they may be absent, null or an object.
type NoParams struct{}

// Methods that clients call.
var (
	MethodInitialize = method[InitializeParams, InitializeResponse]("initialize", Key{}, reads)

	MethodThreadStart             = method[ThreadStartParams, ThreadStartResponse]("thread/start", Key{})
	MethodThreadResume            = method[ThreadResumeParams, ThreadResumeResponse]("thread/resume", byThread())
	MethodThreadFork              = method[ThreadForkParams, ThreadForkResponse]("thread/fork", byThread())
	MethodThreadList              = method[ThreadListParams, ThreadListResponse]("thread/list", Key{}, reads)
	MethodThreadLoadedList        = method[ThreadLoadedListParams, ThreadLoadedListResponse]("thread/loaded/list", Key{}, reads)
	MethodThreadRead              = method[ThreadReadParams, ThreadReadResponse]("thread/read", Key{}, reads)
	MethodThreadTurnsList         = method[ThreadTurnsListParams, ThreadTurnsListResponse]("thread/turns/list", Key{}, reads)
	MethodThreadItemsList         = method[ThreadItemsListParams, ThreadItemsListResponse]("thread/items/list", Key{}, reads)
	MethodThreadItemsRead         = method[ThreadItemsReadParams, ThreadItemsReadResponse]("thread/items/read", Key{}, experimental, reads)
	MethodThreadArchive           = method[ThreadArchiveParams, ThreadArchiveResponse]("thread/archive", byThread())
	MethodThreadUnarchive         = method[ThreadUnarchiveParams, ThreadUnarchiveResponse]("thread/unarchive", byThread())
	MethodThreadDelete            = method[ThreadDeleteParams, ThreadDeleteResponse]("thread/delete", byThread())
	MethodThreadRevert            = method[ThreadRevertParams, ThreadRevertResponse]("thread/revert", byThread())
	MethodThreadCompactStart      = method[ThreadCompactStartParams, ThreadCompactStartResponse]("thread/compact/start", byThread())
	MethodThreadNameSet           = method[ThreadSetNameParams, ThreadSetNameResponse]("thread/name/set", byThread())
	MethodThreadMetadataUpdate    = method[ThreadMetadataUpdateParams, ThreadMetadataUpdateResponse]("thread/metadata/update", byThread())
	MethodThreadUnsubscribe       = method[ThreadUnsubscribeParams, ThreadUnsubscribeResponse]("thread/unsubscribe", byThread())
	MethodThreadSettingsUpdate    = method[ThreadSettingsUpdateParams, ThreadSettingsUpdateResponse]("thread/settings/update", byThread(), experimental)
	MethodThreadInjectItems       = method[ThreadInjectItemsParams, ThreadInjectItemsResponse]("thread/inject_items", byThread())
	MethodThreadShellCommand      = method[ThreadShellCommandParams, ThreadShellCommandResponse]("thread/shellCommand", byThread())
	MethodThreadTerminalsList     = method[ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse]("thread/backgroundTerminals/list", byThread(), experimental, reads)
	MethodThreadTerminalsEnd      = method[ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse]("thread/backgroundTerminals/terminate", byThread(), experimental)
	MethodThreadTerminalsClean    = method[ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse]("thread/backgroundTerminals/clean", byThread(), experimental)
	MethodThreadQueueAdd          = method[ThreadQueueAddParams, ThreadQueueAddResponse]("thread/queue/add", byThread(), experimental)
	MethodThreadQueueList         = method[ThreadQueueListParams, ThreadQueueListResponse]("thread/queue/list", byThread(), experimental, reads)
	MethodThreadQueueUpdate       = method[ThreadQueueUpdateParams, ThreadQueueUpdateResponse]("thread/queue/update", byThread(), experimental)
	MethodThreadQueueDelete       = method[ThreadQueueDeleteParams, ThreadQueueDeleteResponse]("thread/queue/delete", byThread(), experimental)
	MethodThreadQueueReorder      = method[ThreadQueueReorderParams, ThreadQueueReorderResponse]("thread/queue/reorder", byThread(), experimental)
	MethodThreadQueueStart        = method[ThreadQueueStartParams, ThreadQueueStartResponse]("thread/queue/start", byThread(), experimental)
	MethodThreadGoalSet           = method[ThreadGoalSetParams, ThreadGoalSetResponse]("thread/goal/set", byThread())
	MethodThreadGoalGet           = method[ThreadGoalGetParams, ThreadGoalGetResponse]("thread/goal/get", byThread(), reads)
	MethodThreadGoalClear         = method[ThreadGoalClearParams, ThreadGoalClearResponse]("thread/goal/clear", byThread())
	MethodThreadSearch            = method[ThreadSearchParams, ThreadSearchResponse]("thread/search", Key{}, experimental, reads)
	MethodThreadSearchOccurrences = method[ThreadSearchOccurrencesParams, ThreadSearchOccurrencesResponse]("thread/searchOccurrences", Key{}, experimental, reads)
	MethodThreadReadStateUpdate   = method[ThreadReadStateUpdateParams, ThreadReadStateUpdateResponse]("thread/readState/update", byThread(), experimental)

	MethodTurnStart = method[TurnStartParams, TurnStartResponse]("turn/start", byThread())
	MethodTurnSteer = method[TurnSteerParams, TurnSteerResponse]("turn/steer", byThread())
	// An interrupt overtakes the requests that wait for the thread.
	MethodTurnInterrupt      = method[TurnInterruptParams, TurnInterruptResponse]("turn/interrupt", Key{})
	MethodTurnSettingsUpdate = method[TurnSettingsUpdateParams, TurnSettingsUpdateResponse]("turn/settings/update", byThread(), experimental)
	MethodReviewStart        = method[ReviewStartParams, ReviewStartResponse]("review/start", byThread())

	// command/exec is ordered only until the process has started: its response comes when it has ended.
	MethodCommandExec          = method[CommandExecParams, CommandExecResponse]("command/exec", local("process", "processId"))
	MethodCommandExecWrite     = method[CommandExecWriteParams, CommandExecWriteResponse]("command/exec/write", local("process", "processId"))
	MethodCommandExecResize    = method[CommandExecResizeParams, CommandExecResizeResponse]("command/exec/resize", local("process", "processId"))
	MethodCommandExecTerminate = method[CommandExecTerminateParams, CommandExecTerminateResponse]("command/exec/terminate", local("process", "processId"))
	MethodProcessSpawn         = method[ProcessSpawnParams, ProcessSpawnResponse]("process/spawn", local("handle", "processHandle"), experimental)
	MethodProcessWriteStdin    = method[ProcessWriteStdinParams, ProcessWriteStdinResponse]("process/writeStdin", local("handle", "processHandle"), experimental)
	MethodProcessResizePty     = method[ProcessResizePtyParams, ProcessResizePtyResponse]("process/resizePty", local("handle", "processHandle"), experimental)
	MethodProcessKill          = method[ProcessKillParams, ProcessKillResponse]("process/kill", Key{}, experimental)

	MethodFsReadFile                   = method[FsReadFileParams, FsReadFileResponse]("fs/readFile", Key{})
	MethodFsWriteFile                  = method[FsWriteFileParams, FsWriteFileResponse]("fs/writeFile", Key{})
	MethodFsCreateDirectory            = method[FsCreateDirectoryParams, FsCreateDirectoryResponse]("fs/createDirectory", Key{})
	MethodFsGetMetadata                = method[FsGetMetadataParams, FsGetMetadataResponse]("fs/getMetadata", Key{})
	MethodFsReadDirectory              = method[FsReadDirectoryParams, FsReadDirectoryResponse]("fs/readDirectory", Key{})
	MethodFsRemove                     = method[FsRemoveParams, FsRemoveResponse]("fs/remove", Key{})
	MethodFsCopy                       = method[FsCopyParams, FsCopyResponse]("fs/copy", Key{})
	MethodFsWatch                      = method[FsWatchParams, FsWatchResponse]("fs/watch", local("watch", "watchId"))
	MethodFsUnwatch                    = method[FsUnwatchParams, FsUnwatchResponse]("fs/unwatch", local("watch", "watchId"))
	MethodFuzzyFileSearch              = method[FuzzyFileSearchParams, FuzzyFileSearchResponse]("fuzzyFileSearch", Key{})
	MethodFuzzyFileSearchSessionStart  = method[FuzzyFileSearchSessionStartParams, FuzzyFileSearchSessionStartResponse]("fuzzyFileSearch/sessionStart", local("fuzzyFileSearch", "sessionId"), experimental)
	MethodFuzzyFileSearchSessionUpdate = method[FuzzyFileSearchSessionUpdateParams, FuzzyFileSearchSessionUpdateResponse]("fuzzyFileSearch/sessionUpdate", local("fuzzyFileSearch", "sessionId"), experimental)
	MethodFuzzyFileSearchSessionStop   = method[FuzzyFileSearchSessionStopParams, FuzzyFileSearchSessionStopResponse]("fuzzyFileSearch/sessionStop", local("fuzzyFileSearch", "sessionId"), experimental)

	MethodModelList                        = method[ModelListParams, ModelListResponse]("model/list", Key{}, reads)
	MethodModelProviderList                = method[ModelProviderListParams, ModelProviderListResponse]("modelProvider/list", Key{}, reads)
	MethodModelProviderCapabilitiesRead    = method[ModelProviderCapabilitiesReadParams, ModelProviderCapabilitiesReadResponse]("modelProvider/capabilities/read", Key{})
	MethodHooksList                        = method[HooksListParams, HooksListResponse]("hooks/list", byConfigShared(), reads)
	MethodSkillsList                       = method[SkillsListParams, SkillsListResponse]("skills/list", byConfigShared(), reads)
	MethodConfigRead                       = method[ConfigReadParams, ConfigReadResponse]("config/read", byConfigShared(), reads)
	MethodConfigValueWrite                 = method[ConfigValueWriteParams, ConfigWriteResponse]("config/value/write", byConfig())
	MethodConfigBatchWrite                 = method[ConfigBatchWriteParams, ConfigWriteResponse]("config/batchWrite", byConfig())
	MethodConfigMCPServerReload            = method[NoParams, MCPServerRefreshResponse]("config/mcpServer/reload", byConfig())
	MethodMCPServerStatusList              = method[ListMCPServerStatusParams, ListMCPServerStatusResponse]("mcpServerStatus/list", byConfigShared(), reads)
	MethodConfigRequirementsRead           = method[NoParams, ConfigRequirementsReadResponse]("configRequirements/read", byConfigShared())
	MethodPermissionProfileList            = method[PermissionProfileListParams, PermissionProfileListResponse]("permissionProfile/list", byConfigShared())
	MethodCollaborationModeList            = method[CollaborationModeListParams, CollaborationModeListResponse]("collaborationMode/list", Key{}, experimental)
	MethodExperimentalFeatureList          = method[ExperimentalFeatureListParams, ExperimentalFeatureListResponse]("experimentalFeature/list", byConfigShared())
	MethodExperimentalFeatureEnablementSet = method[ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse]("experimentalFeature/enablement/set", byConfig())
	MethodEnvironmentAdd                   = method[EnvironmentAddParams, EnvironmentAddResponse]("environment/add", Key{Family: "environment"}, experimental)
	MethodEnvironmentInfo                  = method[EnvironmentInfoParams, EnvironmentInfoResponse]("environment/info", Key{}, experimental)
	MethodEnvironmentStatus                = method[EnvironmentStatusParams, EnvironmentStatusResponse]("environment/status", Key{}, experimental)
	MethodServerDiagnostics                = method[ServerDiagnosticsParams, ServerDiagnosticsResponse]("server/diagnostics", Key{}, experimental, reads)
	MethodFeedbackSave                     = method[FeedbackSaveParams, FeedbackSaveResponse]("feedback/save", Key{})
	MethodAccountRead                      = method[GetAccountParams, GetAccountResponse]("account/read", Key{Family: "account"})
	MethodAccountLoginStart                = method[LoginAccountParams, LoginAccountResponse]("account/login/start", Key{Family: "account"})
	MethodAccountLoginCancel               = method[CancelLoginAccountParams, CancelLoginAccountResponse]("account/login/cancel", Key{})
	MethodAccountLogout                    = method[NoParams, LogoutAccountResponse]("account/logout", Key{Family: "account"})

	MethodGantryThreadEvents  = method[GantryThreadEventsParams, GantryThreadEventsResponse]("gantry/thread/events", Key{}, reads)
	MethodGantryTurnUndo      = method[GantryTurnUndoParams, GantryTurnUndoResponse]("gantry/turn/undo", byThread())
	MethodGantryPluginList    = method[GantryPluginListParams, GantryPluginListResponse]("gantry/plugin/list", byConfigShared())
	MethodGantryPluginCommand = method[GantryPluginCommandParams, GantryPluginCommandResponse]("gantry/plugin/command", Key{})
	MethodGantryViewOpen      = method[GantryViewOpenParams, GantryViewOpenResponse]("gantry/view/open", Key{})
	MethodGantryViewInput     = method[GantryViewInputParams, GantryViewInputResponse]("gantry/view/input", local("view", "viewId"))
	MethodGantryViewAck       = method[GantryViewAckParams, GantryViewAckResponse]("gantry/view/ack", Key{})
	MethodGantryViewControl   = method[GantryViewControlParams, GantryViewControlResponse]("gantry/view/control", local("view", "viewId"))
	MethodGantryViewClose     = method[GantryViewCloseParams, GantryViewCloseResponse]("gantry/view/close", local("view", "viewId"))
)

// Methods returns the methods that clients call.
func Methods() []*MethodSpec {
	return []*MethodSpec{
		MethodInitialize.MethodSpec,
		MethodThreadStart.MethodSpec, MethodThreadResume.MethodSpec, MethodThreadFork.MethodSpec, MethodThreadList.MethodSpec,
		MethodThreadLoadedList.MethodSpec, MethodThreadRead.MethodSpec, MethodThreadTurnsList.MethodSpec, MethodThreadItemsList.MethodSpec,
		MethodThreadItemsRead.MethodSpec, MethodThreadArchive.MethodSpec, MethodThreadUnarchive.MethodSpec, MethodThreadDelete.MethodSpec,
		MethodThreadRevert.MethodSpec, MethodThreadCompactStart.MethodSpec, MethodThreadNameSet.MethodSpec,
		MethodThreadMetadataUpdate.MethodSpec, MethodThreadUnsubscribe.MethodSpec, MethodThreadSettingsUpdate.MethodSpec,
		MethodThreadInjectItems.MethodSpec, MethodThreadShellCommand.MethodSpec, MethodThreadTerminalsList.MethodSpec,
		MethodThreadTerminalsEnd.MethodSpec, MethodThreadTerminalsClean.MethodSpec, MethodThreadQueueAdd.MethodSpec,
		MethodThreadQueueList.MethodSpec, MethodThreadQueueUpdate.MethodSpec, MethodThreadQueueDelete.MethodSpec,
		MethodThreadQueueReorder.MethodSpec, MethodThreadQueueStart.MethodSpec, MethodThreadGoalSet.MethodSpec,
		MethodThreadGoalGet.MethodSpec, MethodThreadGoalClear.MethodSpec, MethodThreadSearch.MethodSpec,
		MethodThreadSearchOccurrences.MethodSpec, MethodThreadReadStateUpdate.MethodSpec,
		MethodTurnStart.MethodSpec, MethodTurnSteer.MethodSpec, MethodTurnInterrupt.MethodSpec, MethodTurnSettingsUpdate.MethodSpec,
		MethodReviewStart.MethodSpec,
		MethodCommandExec.MethodSpec, MethodCommandExecWrite.MethodSpec, MethodCommandExecResize.MethodSpec,
		MethodCommandExecTerminate.MethodSpec, MethodProcessSpawn.MethodSpec, MethodProcessWriteStdin.MethodSpec,
		MethodProcessResizePty.MethodSpec, MethodProcessKill.MethodSpec,
		MethodFsReadFile.MethodSpec, MethodFsWriteFile.MethodSpec, MethodFsCreateDirectory.MethodSpec, MethodFsGetMetadata.MethodSpec,
		MethodFsReadDirectory.MethodSpec, MethodFsRemove.MethodSpec, MethodFsCopy.MethodSpec, MethodFsWatch.MethodSpec,
		MethodFsUnwatch.MethodSpec, MethodFuzzyFileSearch.MethodSpec, MethodFuzzyFileSearchSessionStart.MethodSpec,
		MethodFuzzyFileSearchSessionUpdate.MethodSpec, MethodFuzzyFileSearchSessionStop.MethodSpec,
		MethodModelList.MethodSpec, MethodModelProviderList.MethodSpec, MethodModelProviderCapabilitiesRead.MethodSpec,
		MethodHooksList.MethodSpec, MethodSkillsList.MethodSpec, MethodConfigRead.MethodSpec, MethodConfigValueWrite.MethodSpec, MethodConfigBatchWrite.MethodSpec,
		MethodConfigMCPServerReload.MethodSpec, MethodMCPServerStatusList.MethodSpec, MethodConfigRequirementsRead.MethodSpec, MethodPermissionProfileList.MethodSpec,
		MethodCollaborationModeList.MethodSpec, MethodExperimentalFeatureList.MethodSpec,
		MethodExperimentalFeatureEnablementSet.MethodSpec, MethodEnvironmentAdd.MethodSpec, MethodEnvironmentInfo.MethodSpec,
		MethodEnvironmentStatus.MethodSpec, MethodServerDiagnostics.MethodSpec, MethodFeedbackSave.MethodSpec,
		MethodAccountRead.MethodSpec, MethodAccountLoginStart.MethodSpec, MethodAccountLoginCancel.MethodSpec,
		MethodAccountLogout.MethodSpec,
		MethodGantryThreadEvents.MethodSpec, MethodGantryTurnUndo.MethodSpec, MethodGantryPluginList.MethodSpec,
		MethodGantryPluginCommand.MethodSpec, MethodGantryViewOpen.MethodSpec, MethodGantryViewInput.MethodSpec,
		MethodGantryViewAck.MethodSpec, MethodGantryViewControl.MethodSpec, MethodGantryViewClose.MethodSpec,
	}
}

// Table returns the table as Markdown, for the guide: the methods that a server has, and the notifications and requests that it sends.
func Table(has func(method string) bool) string {
	var b strings.Builder
	b.WriteString("| method | parameters | result | in order with |\n| --- | --- | --- | --- |\n")
	for _, m := range Methods() {
		if has(m.Name) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", nameCell(m.Name, m.Experimental), typeCell(m.Params), typeCell(m.Result), m.Key)
		}
	}
	b.WriteString("\n| notification | parameters | sent to |\n| --- | --- | --- |\n")
	for _, n := range Notifications() {
		if n.unsent {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", nameCell(n.Name, n.Experimental), typeCell(n.Params), n.Scope)
	}
	b.WriteString("\n| request to clients | parameters | result |\n| --- | --- | --- |\n")
	for _, r := range ServerRequests() {
		if r.unsent {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", nameCell(r.Name, r.Experimental), typeCell(r.Params), typeCell(r.Result))
	}
	return b.String()
}

func nameCell(name string, experimental bool) string {
	if experimental {
		return "`" + name + "` (experimental)"
	}
	return "`" + name + "`"
}

func typeCell(t reflect.Type) string {
	if t == reflect.TypeFor[NoParams]() {
		return "–"
	}
	return "`" + nameOf(t) + "`"
}
