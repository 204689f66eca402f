package appserver

import "github.com/gantry-agent/gantry/host/internal/protocol"

// urgent are the methods that overtake requests that wait, because they end what those wait for.
func urgent(method string) bool { return method == protocol.MethodTurnInterrupt.Name }

// reads reports whether a method changes nothing.
func reads(method string) bool {
	switch method {
	case protocol.MethodInitialize.Name, protocol.MethodThreadRead.Name, protocol.MethodThreadList.Name, protocol.MethodThreadLoadedList.Name,
		protocol.MethodThreadTurnsList.Name, protocol.MethodThreadItemsList.Name, protocol.MethodThreadItemsRead.Name,
		protocol.MethodThreadSearch.Name, protocol.MethodThreadSearchOccurrences.Name, protocol.MethodGantryThreadEvents.Name, protocol.MethodModelList.Name,
		protocol.MethodModelProviderList.Name, protocol.MethodConfigRead.Name, protocol.MethodServerDiagnostics.Name,
		protocol.MethodHooksList.Name, protocol.MethodThreadQueueList.Name, protocol.MethodThreadTerminalsList.Name, protocol.MethodSkillsList.Name:
		return true
	}
	return false
}

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
	on(m, protocol.MethodPermissionProfileList, c.profileList)
	on(m, protocol.MethodCollaborationModeList, c.modeList)
	on(m, protocol.MethodExperimentalFeatureList, c.featureList)
	on(m, protocol.MethodExperimentalFeatureEnablementSet, c.featureSet)
	on(m, protocol.MethodServerDiagnostics, c.diagnostics)
	history{s}.register(m)

	a := accounts{c}
	on(m, protocol.MethodAccountRead, a.read)
	if s.cfg.Accounts != nil {
		on(m, protocol.MethodAccountLoginStart, a.login)
		on(m, protocol.MethodAccountLoginCancel, a.cancel)
		on(m, protocol.MethodAccountLogout, a.logout)
	}
	bench{s}.register(m)
	queues{s}.register(m)
	terminals{s}.register(m)

	v := views{s}
	on(m, protocol.MethodGantryViewOpen, v.viewOpen)
	on(m, protocol.MethodGantryViewInput, v.viewInput)
	on(m, protocol.MethodGantryViewAck, v.viewAck)
	on(m, protocol.MethodGantryViewControl, v.viewControl)
	on(m, protocol.MethodGantryViewClose, v.viewClose)
	return m
}
