package appserver

import (
	"github.com/gantry-agent/gantry/host/internal/protocol"
	"github.com/gantry-agent/gantry/host/internal/workbench"
)

// urgent are the methods that overtake requests that wait, because they end what those wait for.
func urgent(method string) bool { return method == protocol.MethodTurnInterrupt.Name }

// methods returns the handlers of all methods.
func (s *Server) methods() map[string]handler {
	m := map[string]handler{}
	on(m, protocol.MethodInitialize, s.initialize)

	t := threads{s}
	on(m, protocol.MethodThreadStart, t.threadStart)
	on(m, protocol.MethodThreadResume, t.threadResume)
	on(m, protocol.MethodThreadFork, t.threadFork)
	on(m, protocol.MethodThreadList, t.threadList)
	on(m, protocol.MethodThreadSearch, t.threadSearch)
	on(m, protocol.MethodThreadRead, t.threadRead)
	on(m, protocol.MethodThreadLoadedList, t.threadLoadedList)
	on(m, protocol.MethodThreadUnsubscribe, t.threadUnsubscribe)
	on(m, protocol.MethodThreadArchive, t.threadArchive)
	on(m, protocol.MethodThreadUnarchive, t.threadUnarchive)
	on(m, protocol.MethodThreadDelete, t.threadDelete)
	on(m, protocol.MethodThreadNameSet, t.threadSetName)
	on(m, protocol.MethodThreadRevert, t.threadRevert)
	on(m, protocol.MethodThreadCompactStart, t.threadCompact)
	on(m, protocol.MethodThreadShellCommand, t.threadShellCommand)
	on(m, protocol.MethodThreadMetadataUpdate, t.threadMetadataUpdate)
	on(m, protocol.MethodThreadInjectItems, t.threadInject)
	on(m, protocol.MethodThreadSettingsUpdate, t.threadSettingsUpdate)

	u := turns{s}
	on(m, protocol.MethodTurnStart, u.turnStart)
	on(m, protocol.MethodTurnSteer, u.turnSteer)
	on(m, protocol.MethodTurnInterrupt, u.turnInterrupt)
	on(m, protocol.MethodTurnSettingsUpdate, u.turnSettingsUpdate)
	on(m, protocol.MethodReviewStart, u.reviewStart)

	c := catalog{s}
	on(m, protocol.MethodModelList, c.modelList)
	on(m, protocol.MethodModelProviderList, c.providerList)
	on(m, protocol.MethodModelProviderCapabilitiesRead, c.providerCapabilities)
	on(m, protocol.MethodHooksList, c.hooksList)
	on(m, protocol.MethodSkillsList, c.skillsList)
	f := settings{c}
	on(m, protocol.MethodConfigRead, f.configRead)
	on(m, protocol.MethodConfigValueWrite, f.valueWrite)
	on(m, protocol.MethodConfigBatchWrite, f.batchWrite)
	on(m, protocol.MethodConfigRequirementsRead, c.requirementsRead)
	on(m, protocol.MethodConfigMCPServerReload, c.mcpReload)
	on(m, protocol.MethodMCPServerStatusList, c.mcpServers)
	on(m, protocol.MethodPermissionProfileList, c.profileList)
	on(m, protocol.MethodCollaborationModeList, c.modeList)
	on(m, protocol.MethodExperimentalFeatureList, c.featureList)
	on(m, protocol.MethodExperimentalFeatureEnablementSet, c.featureSet)
	on(m, protocol.MethodServerDiagnostics, c.diagnostics)
	on(m, protocol.MethodEnvironmentInfo, c.environmentInfo)
	on(m, protocol.MethodEnvironmentStatus, c.environmentStatus)
	on(m, protocol.MethodGantryPluginList, c.pluginList)
	on(m, protocol.MethodGantryPluginCommand, c.pluginCommand)

	h := history{s}
	on(m, protocol.MethodThreadTurnsList, h.turnsList)
	on(m, protocol.MethodThreadItemsList, h.itemsList)
	on(m, protocol.MethodThreadItemsRead, h.itemsRead)
	on(m, protocol.MethodThreadSearchOccurrences, h.searchOccurrences)
	on(m, protocol.MethodThreadReadStateUpdate, h.readStateUpdate)
	on(m, protocol.MethodGantryThreadEvents, h.events)
	on(m, protocol.MethodGantryTurnUndo, h.undo)

	a := accounts{c}
	on(m, protocol.MethodAccountRead, a.read)
	if s.cfg.Accounts != nil {
		on(m, protocol.MethodAccountLoginStart, a.login)
		on(m, protocol.MethodAccountLoginCancel, a.cancel)
		on(m, protocol.MethodAccountLogout, a.logout)
	}

	b := bench{s}
	type B = workbench.Bench
	on(m, protocol.MethodCommandExec, b.commandExec)
	on(m, protocol.MethodCommandExecWrite, emptyBench[protocol.CommandExecWriteResponse]((*B).CommandExecWrite))
	on(m, protocol.MethodCommandExecResize, emptyBench[protocol.CommandExecResizeResponse]((*B).CommandExecResize))
	on(m, protocol.MethodCommandExecTerminate, emptyBench[protocol.CommandExecTerminateResponse]((*B).CommandExecTerminate))
	on(m, protocol.MethodProcessSpawn, b.processSpawn)
	on(m, protocol.MethodProcessWriteStdin, emptyBench[protocol.ProcessWriteStdinResponse]((*B).ProcessWriteStdin))
	on(m, protocol.MethodProcessResizePty, emptyBench[protocol.ProcessResizePtyResponse]((*B).ProcessResizePty))
	on(m, protocol.MethodProcessKill, emptyBench[protocol.ProcessKillResponse]((*B).ProcessKill))
	on(m, protocol.MethodFsReadFile, withBench((*B).FsReadFile))
	on(m, protocol.MethodFsWriteFile, emptyBench[protocol.FsWriteFileResponse]((*B).FsWriteFile))
	on(m, protocol.MethodFsCreateDirectory, emptyBench[protocol.FsCreateDirectoryResponse]((*B).FsCreateDirectory))
	on(m, protocol.MethodFsGetMetadata, withBench((*B).FsGetMetadata))
	on(m, protocol.MethodFsReadDirectory, withBench((*B).FsReadDirectory))
	on(m, protocol.MethodFsRemove, emptyBench[protocol.FsRemoveResponse]((*B).FsRemove))
	on(m, protocol.MethodFsCopy, emptyBench[protocol.FsCopyResponse]((*B).FsCopy))
	on(m, protocol.MethodFsWatch, withBench((*B).FsWatch))
	on(m, protocol.MethodFsUnwatch, emptyBench[protocol.FsUnwatchResponse]((*B).FsUnwatch))
	on(m, protocol.MethodFuzzyFileSearch, withBench((*B).FuzzyFileSearch))
	on(m, protocol.MethodFuzzyFileSearchSessionStart, b.sessionStart)
	on(m, protocol.MethodFuzzyFileSearchSessionUpdate, emptyBench[protocol.FuzzyFileSearchSessionUpdateResponse]((*B).FuzzyFileSearchSessionUpdate))
	on(m, protocol.MethodFuzzyFileSearchSessionStop, emptyBench[protocol.FuzzyFileSearchSessionStopResponse]((*B).FuzzyFileSearchSessionStop))

	on(m, protocol.MethodFeedbackSave, b.feedbackSave)

	g := goals{s}
	on(m, protocol.MethodThreadGoalSet, g.set)
	on(m, protocol.MethodThreadGoalGet, g.get)
	on(m, protocol.MethodThreadGoalClear, g.clear)

	q := queues{s}
	on(m, protocol.MethodThreadQueueAdd, q.add)
	on(m, protocol.MethodThreadQueueList, q.list)
	on(m, protocol.MethodThreadQueueUpdate, q.update)
	on(m, protocol.MethodThreadQueueDelete, q.delete)
	on(m, protocol.MethodThreadQueueReorder, q.reorder)
	on(m, protocol.MethodThreadQueueStart, q.start)

	l := terminals{s}
	on(m, protocol.MethodThreadTerminalsList, l.list)
	on(m, protocol.MethodThreadTerminalsEnd, l.terminate)
	on(m, protocol.MethodThreadTerminalsClean, l.clean)

	v := views{s}
	on(m, protocol.MethodGantryViewOpen, v.viewOpen)
	on(m, protocol.MethodGantryViewInput, v.viewInput)
	on(m, protocol.MethodGantryViewAck, v.viewAck)
	on(m, protocol.MethodGantryViewControl, v.viewControl)
	on(m, protocol.MethodGantryViewClose, v.viewClose)
	return m
}
