package e2e_test

import (
	"strings"
	"testing"

	"github.com/gantry-agent/gantry/e2e/rig"
)

// asOrdinaryUser are the tests that the list of attacks names. TestTableIsComplete checks that none is missing.
var asOrdinaryUser = []string{
	"TestAnswersForATool",
	"TestApprovalBindsTheEnvironment",
	"TestApprovalForTheSession",
	"TestAppServerHostileClients",
	"TestAppServerLaunchedClient",
	"TestAppServerRefusesHandshakes",
	"TestARepositoryWithHusky",
	"TestBrowser",
	"TestBrowserAsksForASite",
	"TestBrowserOpensNoFile",
	"TestBrowserOutlivesItsPlugin",
	"TestBrowserReachesNoLocalHost",
	"TestCapabilitiesAreEnforced",
	"TestChangedFileValue",
	"TestChangedPluginFile",
	"TestChangedScriptOfADeclaredProcess",
	"TestChangedSecretProgram",
	"TestDeclaredEffectsCount",
	"TestDeclaredProcesses",
	"TestDeclaredProcessesEnd",
	"TestDeclaredProcessesNeedConsent",
	"TestDeclaredProcessesOfAProject",
	"TestDeniedFilesStayDenied",
	"TestDiffAboveItsQuestion",
	"TestEnvironmentOfCommands",
	"TestEveryFileThatOthersExecuteIsListed",
	"TestExchangedHookScript",
	"TestFilesOfADeclaredProcess",
	"TestGuardianWithoutAModel",
	"TestHooksNeedConsent",
	"TestHookThatFailsMeansNo",
	"TestHostilePrograms",
	"TestLoginInTheSandbox",
	"TestMCPFilesOfTheUser",
	"TestMCPHostileAddress",
	"TestMCPHostileLogin",
	"TestMCPHostileProgram",
	"TestMCPHostileTexts",
	"TestMCPHTTPLaunchedClient",
	"TestMCPHTTPRefuses",
	"TestMCPLyingHints",
	"TestMCPPinnedTools",
	"TestMCPPromptsInAnEditor",
	"TestMCPRefusals",
	"TestMCPRoots",
	"TestMCPRugPull",
	"TestMCPSampling",
	"TestMCPSecretsAreNotShown",
	"TestMCPServersOfAProject",
	"TestMCPShadowedProgram",
	"TestMCPShadowing",
	"TestMCPSpoofedQuestion",
	"TestMCPThroughAProxy",
	"TestNarrowProcess",
	"TestPatchesInTheSandbox",
	"TestPluginAddAsksFirst",
	"TestPluginAddLocksWhatWasAgreedTo",
	"TestPluginIsAuthorizedForAHost",
	"TestPluginReachesItsServices",
	"TestProgramsAreEnforced",
	"TestReadOnlyCallsGetNoMore",
	"TestReadOnlyCallsWriteNothing",
	"TestRepositoriesAreBegunInTheWorkspace",
	"TestReviewLeavesOutWhatIsDenied",
	"TestRuleBindsTheEnvironment",
	"TestSandboxModesAndPolicies",
	"TestTheUserWorksInTheSameFolder",
	"TestTrustMarksWhatGrantsMore",
	"TestTrustShowsTheDifference",
	"TestViewOfWhatWasThere",
	"TestWhatOpensALocalAddress",
}

func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	rig.AsOrdinaryUser(t, "e2e", "^("+strings.Join(asOrdinaryUser, "|")+")$", nil)
}
