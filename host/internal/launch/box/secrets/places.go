package secrets

// UserCredentials are where programs keep keys, below the user's home. Nothing in a box reads them: not a command, and not what
// a command was talked into running.
var UserCredentials = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
	".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/glab-cli", ".config/github-copilot", ".config/rclone", ".config/doctl",
	".netrc", ".git-credentials", ".config/git/credentials", ".pypirc", ".npmrc", ".vault-token", ".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
	".terraformrc", ".terraform.d/credentials.tfrc.json", ".config/containers/auth.json", ".config/pypoetry/auth.toml", ".composer/auth.json", ".config/composer/auth.json",
	".fly/config.yml", ".config/heroku", ".config/netlify", ".ngrok2", ".config/ngrok",
	// Of other agents.
	".codex/auth.json", ".claude/.credentials.json", ".claude.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
	// Of browsers and programs for mail: passwords and the cookies of sessions.
	".mozilla", ".thunderbird", ".librewolf", ".config/google-chrome", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", "snap/firefox", "snap/chromium",
}

// MachineFiles are files with passwords and keys of the machine's.
var MachineFiles = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
}

// VendorCredentials are those credentials that vendors' own programs share with a provider.
var VendorCredentials = []string{".aws", ".azure", ".config/gcloud"}

// HiddenOnMacOS are what no command has any business with there: services' sockets and what they keep, passwords and keys of the
// machine's.
var HiddenOnMacOS = []string{
	"/private/var/run", "/private/etc/master.passwd", "/private/etc/sudoers", "/private/etc/sudoers.d", "/private/var/db/dslocal", "/private/var/root",
	"/private/etc/ssh/ssh_host_rsa_key", "/private/etc/ssh/ssh_host_ecdsa_key", "/private/etc/ssh/ssh_host_ed25519_key",
}

// ShownOnMacOS are what is seen of it all the same: names are resolved.
var ShownOnMacOS = []string{"/private/var/run/resolv.conf"}

// UserCredentialsOnMacOS are further places of keys below the user's home.
var UserCredentialsOnMacOS = []string{"Library/Keychains", "Library/Cookies"}
