package command

import (
	_ "embed"
	"slices"
	"strings"
)

// reach lists the words of a program that may start another program, or name a place to write to.
type reach struct {
	long     []string // long options, which may be abbreviated
	letters  string   // short options, alone or in a cluster
	words    []string // whole words
	prefixes []string // of words
	text     bool     // the first operand is code
	operands int      // number of harmless operands; 0: any, -1: none
	single   bool     // long options have one or two dashes, as Go's flags
	sets     bool     // NAME=VALUE may set what the program runs
	ends     string   // words after this one are not the program's own
	// known are harmless options; after the words of a rule, any other option reaches. nil: all other options are harmless.
	known *options
}

// options are harmless options.
type options struct {
	flags  string // short options without a value
	values string // short options with one, attached or as the next word
	long   string // long options without dashes, separated by blanks
	begin  string // letters that harmless options begin with
}

// reaching has programs that users allow for their usual purpose. It is read-only. Programs whose purpose is to start others are
// [starters]; those that run files are not analysed.
var reaching = map[string]reach{
	"git": {long: []string{"--upload-pack", "--receive-pack", "--exec", "--ext-diff", "--textconv", "--open-files-in-pager", "--output", "--output-directory", "--template",
		"--extcmd", "--tool", "--config", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--separate-git-dir", "--sendmail-cmd", "--smtp-server", "--access-hook",
		"--strategy", "--unsafe-paths", "--build-fake-ancestor", "--directory", "--file", "--index-filter", "--tree-filter", "--msg-filter", "--commit-filter", "--env-filter"},
		words: []string{"run", "foreach", "filter-branch", "daemon", "instaweb", "send-email", "shell", "http-backend"}}, // and more, see reachOf
	"find": {words: []string{"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"}, single: true, known: &options{
		long: "name iname path ipath wholename lname type xtype maxdepth mindepth size mtime mmin ctime cmin atime amin newer anewer cnewer print print0 printf ls not o a and or " +
			"empty perm user group uid gid nouser nogroup prune regex iregex regextype L H P xdev mount links readable writable executable quit true false follow depth d " +
			"daystart noleaf samefile inum used warn nowarn ignore_readdir_race help version"}},
	"fd": {long: []string{"--exec", "--exec-batch"}, letters: "xX", known: &options{flags: "HIusiFagLp0lq1", values: "deEtScj", long: "hidden no-ignore no-ignore-vcs unrestricted " +
		"case-sensitive ignore-case glob regex fixed-strings absolute-path list-details follow full-path print0 max-depth min-depth exact-depth exclude type extension size " +
		"changed-within changed-before color threads max-results quiet show-errors base-directory version help"}},
	"rg": {long: []string{"--pre", "--hostname-bin", "--search-zip"}, letters: "z", known: &options{flags: "ilnNvwcSFHhoqUPaxsLup0.IbV", values: "eABCgtTmfjrMdE", long: "files hidden " +
		"no-ignore ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp invert-match count count-matches files-with-matches files-without-match glob iglob " +
		"type type-not type-list line-number no-line-number column context after-context before-context max-count max-depth max-columns multiline multiline-dotall pcre2 text null " +
		"only-matching replace regexp file heading no-heading with-filename no-filename color colors sort sortr stats json follow quiet trim vimgrep passthru pretty version help " +
		"no-messages no-config no-ignore-vcs no-ignore-parent one-file-system threads encoding crlf"}},
	"tar": {long: []string{"--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command", "--info-script", "--new-volume-script"}, letters: "IFCPg",
		known: &options{flags: "xctvzjJapkmOSWrudhnoZ", values: "fbX", long: "extract get create list file verbose gzip gunzip bzip2 xz zstd lzma lzip exclude exclude-vcs strip-components " +
			"auto-compress no-same-owner no-same-permissions keep-old-files skip-old-files wildcards no-wildcards to-stdout version help numeric-owner sort mtime owner group " +
			"exclude-from dereference preserve-permissions totals no-recursion append update diff compare test-label"}},
	"rsync": {long: []string{"--rsh", "--rsync-path", "--remote-option", "--early-input"}, letters: "eM", known: &options{flags: "avzrlptgoDPhnuxHAXSWcqOJibkLIdRmy46", values: "f",
		long: "archive verbose compress recursive links perms times group owner devices specials delete delete-after delete-before delete-during delete-excluded exclude include " +
			"exclude-from include-from filter progress partial stats dry-run human-readable info itemize-changes update checksum size-only ignore-existing existing quiet whole-file " +
			"inplace sparse hard-links acls xattrs numeric-ids max-size min-size timeout contimeout bwlimit relative mkpath cvs-exclude list-only"}},
	"ssh":  {letters: "oFEIwDSLR", known: &options{flags: "46CnNqTtvxaf", values: "lpi"}},
	"scp":  {letters: "oFSD", known: &options{flags: "346BCpqrTvO", values: "Pil"}},
	"sftp": {letters: "oFSbD", known: &options{flags: "46aCfpqrvN", values: "Pil"}},
	"awk": {long: []string{"--file", "--exec", "--include", "--load", "--source"}, letters: "feEil", text: true, known: &options{flags: "", values: "Fv",
		long: "field-separator assign version help posix traditional sandbox"}},
	"sed": {long: []string{"--expression", "--file", "--in-place"}, letters: "efi", text: true, known: &options{flags: "nErszu", values: "l",
		long: "quiet silent regexp-extended separate null-data unbuffered sandbox posix debug line-length version help"}},
	"vim": {long: []string{"--cmd"}, letters: "cSus", words: []string{"+"}, known: &options{flags: "RnNmMZ", values: "", long: "version help clean"}},
	"man": {long: []string{"--pager", "--html", "--preprocessor"}, letters: "PHC", known: &options{flags: "kfwWa", values: "sSmMlL", long: "apropos whatis where path all sections locale"}},
	"less": {letters: "okKtTpP", long: []string{"--log-file", "--LOG-FILE", "--lesskey-file", "--lesskey-src", "--lesskey-content", "--tag-file", "--pattern"}, words: []string{"+"},
		known: &options{flags: "NnRrSFXEeiIgGmMqQsuUwWcCaAfV", values: "bhjxyz", long: "line-numbers chop-long-lines quit-if-one-screen no-init raw-control-chars ignore-case version help"}},
	"sort": {long: []string{"--compress-program", "--output", "--temporary-directory", "--random-source", "--files0-from"}, letters: "oT", known: &options{flags: "bdfghMnRrsuVzmcCi", values: "ktS",
		long: "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort month-sort numeric-sort random-sort reverse stable unique version-sort " +
			"zero-terminated merge check key field-separator buffer-size parallel batch-size debug version help sort"}},
	"uniq": {operands: 1, known: &options{flags: "cdDizu", values: "fsw", long: "count repeated all-repeated group ignore-case zero-terminated unique skip-fields skip-chars check-chars version help"}},
	"split": {long: []string{"--filter"}, operands: 1, known: &options{flags: "dexuz", values: "lbCnat", long: "lines bytes line-bytes number suffix-length numeric-suffixes hex-suffixes " +
		"elide-empty-files verbose unbuffered separator version help"}},
	"zip": {long: []string{"--unzip-command", "--temp-path"}, words: []string{"-TT"}, letters: "bO", known: &options{flags: "rqvdufjmy9012345678XDoT@", values: "xintP", long: "recurse-paths quiet verbose " +
		"exclude include junk-paths symlinks"}},
	"curl": {letters: "oOKcDETJw", long: []string{"--output", "--config"}, known: &options{flags: "sSLfkIiGvgNqjapB#46nR", values: "XHAmbeudyYrFzhUxtQPC", long: "silent show-error location " +
		"fail fail-with-body head include get insecure compressed request header user-agent max-time connect-timeout retry retry-delay retry-max-time retry-connrefused retry-all-errors " +
		"data data-raw data-binary data-urlencode data-ascii json url url-query verbose http1.0 http1.1 http2 http3 ipv4 ipv6 no-progress-meter progress-bar form form-string user cookie " +
		"referer range globoff no-buffer parallel tlsv1.2 tlsv1.3 cacert resolve proto proto-redir max-redirs max-filesize next help version post301 post302 oauth2-bearer basic digest"}},
	"wget": {long: []string{"--use-askpass", "--execute", "--config", "--output-document", "--directory-prefix"}, letters: "eOPoai", known: &options{flags: "qvdcNSFrpkKEHxLl46", values: "tTwUAR",
		long: "quiet verbose no-verbose continue timestamping tries timeout wait user-agent header spider no-check-certificate max-redirect server-response show-progress https-only " +
			"recursive level no-parent page-requisites convert-links accept reject no-clobber progress inet4-only inet6-only version help post-data method body-data"}},
	"go": {words: []string{"generate"}, single: true, ends: "-args", known: &options{long: "v run race msan asan count short timeout tags cover covermode coverpkg bench benchmem benchtime " +
		"parallel p n x json failfast list skip vet mod trimpath a buildvcs buildmode cpu shuffle u m t f e d deps test all diff fullpath modcacherw insecure versions retracted export " +
		"find compiled droprequire go require replace exclude print why c src cmd short i work linkshared pgo h help tests version"}},
	"cargo": {long: []string{"--config", "--manifest-path", "--target-dir", "--artifact-dir", "--root"}, letters: "ZC", ends: "--", known: &options{flags: "vqr", values: "pjFh", long: "release all " +
		"workspace all-targets all-features features no-default-features package lib bin bins test tests bench benches example examples doc locked offline frozen no-run no-fail-fast " +
		"verbose quiet message-format profile jobs keep-going exclude version check no-deps open fix allow-dirty allow-staged help color dry-run list dev build edges depth invert " +
		"duplicates format timings unit-graph future-incompat-report precise aggressive recursive rename optional path git branch tag rev"}},
	"npm": {long: []string{"--script-shell", "--node-options", "--userconfig", "--globalconfig", "--prefix", "--shell", "--git", "--editor", "--viewer", "--init-module", "--cache", "--dir", "--cwd"},
		letters: "Cg", ends: "--", known: &options{flags: "DSEOBsfydwvrPWaTp", values: "F", long: "save save-dev save-exact save-optional save-prod save-peer silent no-audit no-fund omit " +
			"include production if-present workspace workspaces ignore-scripts legacy-peer-deps strict-peer-deps frozen-lockfile no-frozen-lockfile watch run json depth dry-run loglevel " +
			"prefer-offline offline verbose quiet audit fund all long parseable filter recursive parallel stream version help force yes dev prod immutable tag access otp latest " +
			"package-lock-only no-save no-optional no-package-lock engine-strict color no-color"}},
	"make": {letters: "fCIEW", long: []string{"--eval", "--file", "--makefile", "--directory", "--include-dir"}, sets: true, known: &options{flags: "jkBnistpqrRSwdveL", values: "lO",
		long: "jobs keep-going always-make just-print dry-run recon ignore-errors silent quiet touch print-data-base question no-builtin-rules no-builtin-variables print-directory " +
			"no-print-directory load-average output-sync debug trace version help environment-overrides warn-undefined-variables"}},
	"gcc": {words: []string{"-wrapper"}, prefixes: []string{"-B", "-specs", "--specs", "-fplugin", "@", "-Wl,", "-Wa,", "-Wp,", "-X", "-fuse-ld", "-fdump", "-dump", "-save", "--sysroot", "-o",
		"-MF", "-MJ", "-mllvm", "-serialize-diagnostics", "-cc1", "-load", "-plugin", "-config"}, known: &options{begin: "cESvgWmOfspIDULlwM", long: "version help std ansi fsanitize fno-sanitize " +
		"fvisibility fdiagnostics-color fcf-protection ffp-contract fmax-errors ftemplate-depth fconstexpr-depth ftrivial-auto-var-init fexec-charset finput-charset flto fabi-version " +
		"fmessage-length fstrict-flex-arrays fzero-call-used-regs ffile-prefix-map fmacro-prefix-map fdebug-prefix-map falign-functions ftls-model fmax-include-depth " +
		"fmacro-backtrace-limit ferror-limit ftemplate-backtrace-limit fopenmp fprofile-update"}},
	"openssl": {single: true, known: &options{long: "in inform outform text noout subject issuer dates startdate enddate fingerprint hash serial modulus sha1 sha256 sha384 sha512 md5 hex base64 connect " +
		"servername showcerts brief pubin pubkey purpose CAfile CApath verify quiet help v a tls1_2 tls1_3 alpn status checkend ext nameopt binary r d e list"}},
	"sqlite3": {words: []string{"-cmd", "-init"}, prefixes: []string{"."}, operands: -1, single: true, known: &options{long: "readonly safe json csv html line list column markdown table " +
		"box header noheader batch bail version help separator nullvalue quote tabs"}},
	"pytest": {letters: "pco", long: []string{"--rootdir", "--confcutdir", "--basetemp", "--junitxml", "--junit-xml", "--log-file", "--pdbcls", "--debug", "--pastebin", "--override-ini", "--config-file",
		"--resultlog", "--report-log", "--result-log"}, known: &options{flags: "vqxslhdf", values: "kmnrW", long: "verbose quiet exitfirst maxfail last-failed lf failed-first ff new-first nf " +
		"stepwise sw collect-only co tb durations durations-min capture show-capture no-header no-summary disable-warnings strict-markers strict-config cov cov-branch cov-fail-under " +
		"color code-highlight setup-show fixtures markers version help lfnf cache-clear cache-show pyargs ignore ignore-glob deselect runxfail showlocals numprocesses dist timeout " +
		"numprocesses reruns asyncio-mode benchmark-skip benchmark-only no-cov cov-report random-order"}},
	"ip":   {words: []string{"exec"}, letters: "b", known: &options{flags: "46shdrojNcbV", long: "json pretty brief color oneline details stats statistics family resolve"}},
	"gdb":  {long: []string{"--eval-command", "--init-eval-command", "--command", "--args"}, letters: "x", words: []string{"-ex", "-iex", "-ix"}, known: &options{long: "version help"}},
	"nmap": {long: []string{"--script"}, letters: "oi", known: &options{flags: "sSTUVAPpnvFr46dO", values: "p", long: "open reason top-ports version help"}},

	// Of these only what starts or loads something, or writes elsewhere, is known.
	"kubectl": {long: []string{"--kubeconfig", "--cache-dir", "--enable-exec", "--enable-alpha-plugins", "--helm-command"}},
	"helm":    {long: []string{"--kubeconfig", "--post-renderer", "--output-dir", "--registry-config", "--repository-config"}},
	"hg":      {long: []string{"--config", "--config-file", "--repository", "--cwd"}, letters: "R", words: []string{"extdiff"}},
	"svn":     {long: []string{"--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"}},
	"jj":      {long: []string{"--config", "--config-toml", "--config-file", "--tool", "--repository"}, letters: "R"},
	"psql":    {long: []string{"--command", "--file", "--output", "--log-file"}, letters: "cfoL"},
	"mysql":   {long: []string{"--execute", "--pager", "--init-command", "--defaults-file", "--defaults-extra-file", "--tee", "--plugin-dir"}, letters: "e"},
	"tmux":    {operands: -1, known: &options{flags: "apJeqNCdr", values: "tSEb"}}, // formats and words behind ; are commands
	"pip":     {long: []string{"--python", "--log", "--target", "--prefix", "--root", "--src", "--cache-dir"}, letters: "t"},
	"apt":     {long: []string{"--option", "--config-file"}, letters: "oc"},
	"dpkg":    {long: []string{"--pre-invoke", "--post-invoke", "--status-logger", "--root", "--instdir", "--admindir", "--log"}},
	"rpm":     {long: []string{"--pipe", "--eval", "--define", "--macros", "--rcfile", "--load", "--root", "--dbpath"}, letters: "ED"},
	"gpg": {long: []string{"--agent-program", "--dirmngr-program", "--homedir", "--options", "--output", "--photo-viewer", "--exec-path", "--log-file", "--logger-file", "--status-file",
		"--attribute-file"}, letters: "o"},
	"ssh-keygen": {letters: "Dw"}, "ssh-add": {letters: "sS"}, "tcpdump": {letters: "zw"}, "tshark": {letters: "Xw"},
	"pandoc": {long: []string{"--filter", "--lua-filter", "--pdf-engine", "--output", "--to", "--from", "--read", "--write", "--defaults", "--data-dir", "--extract-media", "--log"}, letters: "FLotfrwd"},
	"latex": {prefixes: []string{"-shell-escape", "--shell-escape", "-enable-write18", "--enable-write18", "-output-directory", "--output-directory", "-cnf-line", "--cnf-line",
		"-fmt", "--fmt", "-progname", "--progname"}},
	"latexmk": {words: []string{"-e", "-r"}, prefixes: []string{"-pdflatex=", "-latex=", "-xelatex=", "-lualatex=", "-outdir", "-auxdir", "-output-directory"}},
	"ag":      {long: []string{"--pager"}}, "ack": {long: []string{"--pager", "--ackrc"}}, "bat": {long: []string{"--pager", "--config-file"}},
	"ugrep": {long: []string{"--pager", "--filter", "--view", "--config"}}, "fzf": {long: []string{"--preview", "--bind", "--listen", "--with-shell"}},
	"tree": {letters: "o"}, "shuf": {long: []string{"--output"}, letters: "o"}, "iconv": {long: []string{"--output"}, letters: "o"}, "sdiff": {long: []string{"--output"}, letters: "o"},
	"xxd":   {operands: 1, known: &options{flags: "abCdeEipPruv", values: "clgnosR"}},
	"unzip": {letters: "d"}, "yq": {long: []string{"--inplace", "--in-place", "--split-exp"}, letters: "is"}, "dc": {long: []string{"--expression", "--file"}, letters: "ef", operands: -1},
	"gnuplot": {letters: "e", text: true}, "ctags": {long: []string{"--options", "--output"}, letters: "foL"}, "gs": {prefixes: []string{"-sOutputFile", "-o", "-dNOSAFER", "-c"}},
	"cloc": {long: []string{"--extract-with", "--config", "--report-file", "--out"}},
	"nm":   {long: []string{"--plugin", "--output"}, letters: "o"}, "ld": {prefixes: []string{"-plugin", "--plugin", "-o", "--output", "-Map", "-T", "@"}},

	// The words of builtins: a subscript in them is evaluated, also in quotes.
	"printf": {prefixes: []string{"-v"}}, "test": {words: []string{"-v"}}, "[": {words: []string{"-v"}},

	"python": interpreter, "node": interpreter, "ruby": interpreter, "perl": interpreter, "php": interpreter, "lua": interpreter, "bash": interpreter,
}

// writing are the options among these that only say where something is written.
var writing = map[string]reach{
	"curl": {letters: "oOcDJ", long: []string{"--output"}}, "wget": {letters: "OPoa", long: []string{"--output-document", "--directory-prefix"}}, "gcc": {prefixes: []string{"-o"}},
	"make": {sets: true}, "sed": {letters: "i", long: []string{"--in-place"}}, "tar": {letters: "C"}, "sort": {letters: "oT", long: []string{"--output", "--temporary-directory"}},
	"pytest": {long: []string{"--junitxml", "--junit-xml", "--log-file", "--basetemp", "--rootdir"}}, "zip": {letters: "bO"}, "npm": {letters: "gC", long: []string{"--prefix"}},
	"cargo": {long: []string{"--target-dir", "--manifest-path"}}, "git": {long: []string{"--output", "--output-directory"}}, "less": {letters: "o"},
	"pandoc": {letters: "otfrw", long: []string{"--output", "--to", "--from", "--read", "--write"}}, "psql": {letters: "cfoL", long: []string{"--command", "--file", "--output"}},
	"unzip": {letters: "d"}, "tree": {letters: "o"}, "yq": {letters: "i", long: []string{"--inplace", "--in-place"}}, "tcpdump": {letters: "w"}, "gpg": {letters: "o", long: []string{"--output"}},
	"pip": {letters: "t", long: []string{"--target", "--prefix"}}, "nm": {letters: "o"}, "mysql": {letters: "e", long: []string{"--execute"}},
}

// interpreter runs the file that its first word names, or what an option says.
var interpreter = reach{text: true}

// gitLetters are the options of one letter by git's subcommands; elsewhere the same letters mean something else.
var gitLetters = map[string]string{
	"": "cCp", "clone": "cuj", "rebase": "xsX", "merge": "sX", "pull": "sX", "cherry-pick": "X", "revert": "X", "grep": "O", "difftool": "xt", "mergetool": "t", "archive": "o", "format-patch": "o",
	"config": "fe", "bugreport": "o", "diagnose": "o",
}

// gitOperands are the subcommands that write to where their words say, and how many words don't.
var gitOperands = map[string]int{"init": -1, "clone": 1, "bundle": -1, "difftool": 0}

// gitSubcommands are those whose options are known.
var gitSubcommands = strings.Fields("add am apply archive bisect blame branch checkout cherry cherry-pick clean clone commit describe diff fetch for-each-ref format-patch gc grep init log " +
	"ls-files ls-remote ls-tree merge merge-base mv notes pull push range-diff rebase reflog remote reset restore revert rev-list rev-parse rm shortlog show show-branch show-ref stash " +
	"status submodule switch tag worktree cat-file config")

// gitOptions are git's harmless long options, whichever subcommand has them.
//
//go:embed git_options.txt
var gitOptions string

// sames has other names of these programs.
var sames = map[string]string{
	"fdfind": "fd", "gtar": "tar", "bsdtar": "tar", "gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "vi": "vim", "nvim": "vim",
	"ex": "vim", "view": "vim", "vimdiff": "vim", "pnpm": "npm", "yarn": "npm", "gfind": "find", "gsort": "sort", "gmake": "make", "more": "less", "most": "less",
	"cc": "gcc", "g++": "gcc", "c++": "gcc", "clang": "gcc", "clang++": "gcc", "py.test": "pytest", "python2": "python", "python3": "python", "pypy": "python", "pypy3": "python",
	"cpp": "gcc", "gfortran": "gcc", "pip3": "pip", "apt-get": "apt", "apt-cache": "apt", "aptitude": "apt", "gpg2": "gpg", "mariadb": "mysql", "sl": "hg", "batcat": "bat",
	"pdflatex": "latex", "xelatex": "latex", "lualatex": "latex", "tex": "latex", "pdftex": "latex", "objdump": "nm", "ranlib": "nm", "size": "nm", "ar": "nm",
	"nodejs": "node", "guniq": "uniq", "gsplit": "split", "sh": "bash", "zsh": "bash", "dash": "bash", "ksh": "bash",
}

// knows reports whether an option is harmless, and whether its value is the next word.
func (o *options) knows(word string, single bool) (known, next bool) {
	if strings.HasPrefix(word, "--") || single {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		return name == "" || isNumber(name) || slices.Contains(strings.Fields(o.long), name), false
	}
	if option, _, joined := strings.Cut(word[1:], "="); o.begin != "" && (joined && option[0] == 'f' || strings.IndexByte(o.begin, word[1]) < 0) {
		return slices.Contains(strings.Fields(o.long), option), false // of a compiler; some name programs and files
	} else if o.begin != "" {
		return true, false
	}
	for i, letter := range word[1:] {
		switch {
		case strings.ContainsRune(o.values, letter):
			return true, i+2 == len(word)
		case letter >= '0' && letter <= '9':
		case !strings.ContainsRune(o.flags, letter):
			return false, false
		}
	}
	return true, false
}

// isNumber reports whether an option is a number, as in `head -5` and `find -mtime -5`.
func isNumber(name string) bool {
	digits := strings.TrimLeft(name, "0123456789")
	return len(digits) < len(name) && strings.TrimRight(digits, "ckMGwb") == ""
}
