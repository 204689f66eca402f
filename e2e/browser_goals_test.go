package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// browserGoals are the abilities of a browser for models, numbered as in the comparison of such browsers that the plugin was designed by, with the
// tests that hold them. Each test is named by its package below plugins/browser/internal, or e2e. Numbers that are missing are not obligations of
// the plugin, or no part of it: 35 and 36 (optional), 47 and 48 (hosted browsers, captchas), 57 (actions for single sites). Of one, a part is
// missing that no test can hold: 60 (tabs of several agents in one browser).
var browserGoals = map[int]string{
	1:  "capture.TestVectors state.TestLines",
	2:  "capture.TestVectors e2e.TestBrowser",
	3:  "capture.TestVectors capture.TestTallFrame",
	4:  "capture.TestVectors action.TestActions",
	5:  "capture.TestVectors capture.TestWhatCannotBeUsed",
	6:  "capture.TestVectors",
	7:  "capture.TestNewElements",
	8:  "state.TestDelta e2e.TestBrowser",
	9:  "capture.TestScope state.TestTextIsCutBetweenLines tools.TestFullStateIsContinued",
	10: "capture.TestVectors capture.TestNumbersAndChanges",
	11: "capture.TestVectors state.TestFramesWithinThemselves",
	12: "capture.TestFrameOfAnotherSite action.TestFrameOfAnotherSite e2e.TestBrowserCombined",
	13: "capture.TestClosedShadowRoots action.TestClosedShadowRoot",
	14: "capture.TestVectors",
	15: "state.TestPagination",
	16: "action.TestActions",
	17: "action.TestActions",
	18: "action.TestActions",
	19: "action.TestActions",
	20: "action.TestActions e2e.TestBrowserLogin",
	21: "input.TestChords action.TestActions",
	22: "action.TestActions",
	23: "action.TestFiles e2e.TestBrowserFiles",
	24: "files.TestDownload e2e.TestBrowserFiles",
	25: "userfiles.TestPDFText e2e.TestBrowserFiles",
	26: "action.TestSaveAsPDF e2e.TestBrowserFiles",
	27: "action.TestActions",
	28: "action.TestActions",
	29: "extract.TestChunks extract.TestSchema e2e.TestBrowserExtract",
	30: "action.TestParse action.TestHostsAreThoseOfTheBrowser",
	31: "action.TestTabs e2e.TestBrowserCombined",
	32: "target.TestDialogs target.TestAnsweredDialogs e2e.TestBrowserCombined",
	33: "action.TestActions agent.TestStepEnds",
	34: "action.TestConsole action.TestRequests",
	37: "action.TestEmulate target.TestSettingsOfAllTabs",
	38: "record.TestRecorder record.TestVideo e2e.TestBrowserRecording e2e.TestBrowserVideo",
	39: "storage.TestStorageOfAllOrigins storage.TestMerge storage.TestSeal",
	40: "e2e.TestBrowserProfiles profile.TestFolderStaysWhileItIsUsed e2e.TestBrowserOfTheUser",
	41: "chromium.TestArguments e2e.TestBrowserHasANetworkOfItsOwn",
	42: "policy.TestAddresses policy.TestNotations target.TestForbiddenDocuments e2e.TestBrowserOpensNothingDenied",
	43: "secret.TestAllows secret.TestMasks e2e.TestBrowserLogin e2e.TestBrowserSecretsStayOnTheirSites",
	44: "cdp.TestPing cdp.TestAdoption e2e.TestBrowserOutlivesReloads", // the connection is a pipe
	45: "cdp.TestRefusalsAndDeadlines action.TestBusyPage",
	46: "target.TestCrash e2e.TestBrowserOutlivesItsPlugin e2e.TestKillsOfBrowserLeaveNothing",
	49: "agent.TestRun agent.TestPlan agent.TestRepeats agent.TestBudget e2e.TestBrowserTask",
	50: "agent.TestRun agent.TestFallback e2e.TestBrowserTaskFallback",
	51: "agent.TestSummary",
	52: "files.TestManagedName files.TestManaged",
	53: "history.TestMatch history.TestUpstreamFileIsLoadedAndWritten e2e.TestBrowserReplay e2e.TestBrowserCombined",
	54: "history.TestVariables e2e.TestBrowserReplay",
	55: "agent.TestKnownSteps e2e.TestBrowserTaskIsKnown",
	56: "agent.TestResume e2e.TestBrowserTaskGoesOn",
	58: "e2e.TestBrowserCommands e2e.TestCall e2e.TestMCPAgent",
	59: "session.TestVectors e2e.TestBrowserScript",
	61: "script.TestPage e2e.TestBrowserScript",
	62: "view.TestShow e2e.TestViewOfABrowser e2e.TestBrowserLoginWall",
}

// browserDefects are defects of such browsers that this one must not have, with the tests that hold that, named like those of browserGoals.
var browserDefects = map[string]string{
	"values that were typed, or set by a script, are not in the state":      "capture.TestVectors e2e.TestBrowser",
	"labels of one character are lost":                                      "capture.TestVectors state.TestPagination",
	"ordinary fields look like shadow roots, and cells like controls":       "capture.TestVectors",
	"what has not changed is new in each state":                             "capture.TestNewElements capture.TestNumbersAndChanges",
	"controls of media can't be reached":                                    "capture.TestVectors",
	"options of a list, the chosen one, or what a button opens are missing": "capture.TestVectors",
	"what is covered or inert is clicked by a script":                       "action.TestActions capture.TestVectors capture.TestWhatCannotBeUsed",
	"only some hundred elements have numbers":                               "capture.TestManyElements",
	"numbers of frames in other processes collide":                          "capture.TestFrameOfAnotherSite action.TestFrameOfAnotherSite",
	"messages of dialogs come again and again":                              "target.TestDialogs e2e.TestBrowserIsNotHeldUp",
	"going back at the beginning of the history succeeds":                   "action.TestEndOfTheHistory",
	"a text with quotes is not found, and scripts are changed":              "action.TestActions",
	"a plus sign can't be typed":                                            "input.TestChords",
	"an element that is gone is no error, and failures are not counted":     "action.TestActions action.TestReplacedElements agent.TestFailures",
	"rules for addresses compare beginnings, or leave subdomains open":      "policy.TestAddresses policy.TestNotations policy.TestOpenedByAPage",
	"data and blob addresses, frames or sockets pass the rules":             "policy.TestOpenedByAPage target.TestForbiddenDocuments target.TestForbiddenSockets target.TestFramesAreJudged",
	"paths of uploads are not checked":                                      "userfiles.TestRead e2e.TestBrowserOfTheUser",
	"only the storage of the open page is saved":                            "storage.TestStorageOfAllOrigins",
	"downloads pass through the page":                                       "files.TestDownload files.TestDownloadOfABlob",
	"archives have only https and one tab":                                  "record.TestRecorder",
	"ports are raced for, pipes fill up, processes and crashes are missed":  "browserproc.TestBecome target.TestCrash e2e.TestBrowser",
	"events of earlier tabs are lost":                                       "target.TestTabs",
	"sites share a process":                                                 "chromium.TestArguments target.TestFrameOfAnotherSite",
	"the page is changed by being read, or sees how":                        "capture.TestNothingIsWritten capture.TestHostilePage",
	"clicks are not trusted":                                                "action.TestActions",
	"commands have no deadline":                                             "cdp.TestRefusalsAndDeadlines cdp.TestPing",
}

// Each defect has tests, and they exist.
func TestBrowserDefectsHaveTests(t *testing.T) {
	t.Parallel()
	tests := browserTests(t)
	for defect, names := range browserDefects {
		for _, name := range strings.Fields(names) {
			if !tests[name] {
				t.Errorf("%s: there is no %s", defect, name)
			}
		}
	}
}

// browserTests returns the names of the tests that can be listed.
func browserTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	for _, pattern := range []string{"*_test.go", "../plugins/browser/internal/*/*_test.go"} {
		list, err := filepath.Glob(pattern)
		if err != nil || len(list) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range list {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			room := filepath.Base(filepath.Dir(path))
			if pattern == "*_test.go" {
				room = "e2e"
			}
			for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
				tests[room+"."+m[1]] = true
			}
		}
	}
	return tests
}

// Each ability has tests, and they exist.
func TestBrowserGoalsHaveTests(t *testing.T) {
	t.Parallel()
	tests := browserTests(t)
	for n := 1; n <= 62; n++ {
		names, ok := browserGoals[n]
		switch n {
		case 35, 36, 47, 48, 57, 60:
			continue
		}
		if !ok {
			t.Errorf("%d has no test", n)
		}
		for _, name := range strings.Fields(names) {
			if !tests[name] {
				t.Errorf("%d: there is no %s", n, name)
			}
		}
	}
}
