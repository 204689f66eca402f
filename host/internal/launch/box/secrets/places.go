package secrets

// UserCredentials are the places below the user's home folder where programs keep keys. A sandboxed command reads none of them,
// whatever it was talked into.
var UserCredentials = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
	".config/gcloud", ".config/gh", ".config/hub", ".config/op", ".config/glab-cli", ".config/github-copilot", ".config/rclone", ".config/doctl",
	".netrc", ".git-credentials", ".config/git/credentials", ".pypirc", ".npmrc", ".vault-token", ".pgpass", ".my.cnf", ".mylogin.cnf", ".s3cfg", ".boto",
	".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
	".terraformrc", ".terraform.d/credentials.tfrc.json", ".config/containers/auth.json", ".config/pypoetry/auth.toml", ".composer/auth.json", ".config/composer/auth.json",
	".fly/config.yml", ".config/heroku", ".config/netlify", ".ngrok2", ".config/ngrok",
	// Of coding agents.
	".codex/auth.json", ".claude/.credentials.json", ".claude.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
	// Of browsers and mail programs: passwords and session cookies.
	".mozilla", ".thunderbird", ".librewolf", ".config/google-chrome", ".config/google-chrome-beta", ".config/google-chrome-unstable", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", "snap/firefox", "snap/chromium",
}

// MachineFiles hold the machine's passwords and keys.
var MachineFiles = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-",
	"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key",
}

// VendorCredentials are the UserCredentials that a provider plugin shares with the vendor's own programs.
var VendorCredentials = []string{".aws", ".azure", ".config/gcloud"}

// HiddenOnMacOS are hidden from every command on macOS: sockets and data of services, passwords and keys of the machine.
var HiddenOnMacOS = []string{
	"/private/var/run", "/private/etc/master.passwd", "/private/etc/sudoers", "/private/etc/sudoers.d", "/private/var/db/dslocal", "/private/var/root",
	"/private/etc/ssh/ssh_host_rsa_key", "/private/etc/ssh/ssh_host_ecdsa_key", "/private/etc/ssh/ssh_host_ed25519_key",
}

// ShownOnMacOS are the exceptions from HiddenOnMacOS, needed for resolving names.
var ShownOnMacOS = []string{"/private/var/run/resolv.conf"}

// UserCredentialsOnMacOS are further places below the user's home folder on macOS.
var UserCredentialsOnMacOS = []string{"Library/Keychains", "Library/Cookies"}
