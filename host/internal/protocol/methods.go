package protocol

// Methods that clients call.
var (
	MethodInitialize = method[InitializeParams, InitializeResponse]("initialize", Key{})

	MethodThreadStart             = method[ThreadStartParams, ThreadStartResponse]("thread/start", Key{})
	MethodThreadResume            = method[ThreadResumeParams, ThreadResumeResponse]("thread/resume", byThread())
	MethodThreadFork              = method[ThreadForkParams, ThreadForkResponse]("thread/fork", byThread())
	MethodThreadList              = method[ThreadListParams, ThreadListResponse]("thread/list", Key{})
	MethodThreadLoadedList        = method[ThreadLoadedListParams, ThreadLoadedListResponse]("thread/loaded/list", Key{})
	MethodThreadRead              = method[ThreadReadParams, ThreadReadResponse]("thread/read", Key{})
	MethodThreadTurnsList         = method[ThreadTurnsListParams, ThreadTurnsListResponse]("thread/turns/list", Key{})
	MethodThreadItemsList         = method[ThreadItemsListParams, ThreadItemsListResponse]("thread/items/list", Key{})
	MethodThreadItemsRead         = method[ThreadItemsReadParams, ThreadItemsReadResponse]("thread/items/read", Key{}, experimental)
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
	MethodThreadTerminalsList     = method[ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse]("thread/backgroundTerminals/list", byThread(), experimental)
	MethodThreadTerminalsEnd      = method[ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse]("thread/backgroundTerminals/terminate", byThread(), experimental)
	MethodThreadTerminalsClean    = method[ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse]("thread/backgroundTerminals/clean", byThread(), experimental)
	MethodThreadQueueAdd          = method[ThreadQueueAddParams, ThreadQueueAddResponse]("thread/queue/add", byThread(), experimental)
	MethodThreadQueueList         = method[ThreadQueueListParams, ThreadQueueListResponse]("thread/queue/list", byThread(), experimental)
	MethodThreadQueueUpdate       = method[ThreadQueueUpdateParams, ThreadQueueUpdateResponse]("thread/queue/update", byThread(), experimental)
	MethodThreadQueueDelete       = method[ThreadQueueDeleteParams, ThreadQueueDeleteResponse]("thread/queue/delete", byThread(), experimental)
	MethodThreadQueueReorder      = method[ThreadQueueReorderParams, ThreadQueueReorderResponse]("thread/queue/reorder", byThread(), experimental)
	MethodThreadQueueStart        = method[ThreadQueueStartParams, ThreadQueueStartResponse]("thread/queue/start", byThread(), experimental)
	MethodThreadSearch            = method[ThreadSearchParams, ThreadSearchResponse]("thread/search", Key{}, experimental)
	MethodThreadSearchOccurrences = method[ThreadSearchOccurrencesParams, ThreadSearchOccurrencesResponse]("thread/searchOccurrences", Key{}, experimental)
	MethodThreadReadStateUpdate   = method[ThreadReadStateUpdateParams, ThreadReadStateUpdateResponse]("thread/readState/update", byThread(), experimental)

	MethodTurnStart = method[TurnStartParams, TurnStartResponse]("turn/start", byThread())
	MethodTurnSteer = method[TurnSteerParams, TurnSteerResponse]("turn/steer", byThread())
	// An interrupt overtakes the requests that wait for the thread.
	MethodTurnInterrupt      = method[TurnInterruptParams, TurnInterruptResponse]("turn/interrupt", Key{})
	MethodTurnSettingsUpdate = method[TurnSettingsUpdateParams, TurnSettingsUpdateResponse]("turn/settings/update", byThread(), experimental)
	MethodReviewStart        = method[ReviewStartParams, ReviewStartResponse]("review/start", byThread())
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
		MethodThreadQueueReorder.MethodSpec, MethodThreadQueueStart.MethodSpec, MethodThreadSearch.MethodSpec,
		MethodThreadSearchOccurrences.MethodSpec, MethodThreadReadStateUpdate.MethodSpec,
		MethodTurnStart.MethodSpec, MethodTurnSteer.MethodSpec, MethodTurnInterrupt.MethodSpec, MethodTurnSettingsUpdate.MethodSpec,
		MethodReviewStart.MethodSpec,
	}
}
