default_model = "large"

provider "scripted" {
  source = "builtin/scripted"
}

provider "vendor" {
  source   = "builtin/compatible"
  api_key  = env("VENDOR_API_KEY", "none")
  base_url = "https://vendor.example/v1"
}

model "large" {
  provider  = "scripted"
  name      = "scripted"
  fallback  = ["small"]
  reasoning = "medium"
}

model "small" {
  provider          = "vendor"
  name              = "small"
  context_window    = 100000
  max_output_tokens = 4000
}

approval {
  policy        = "granular"
  safe_commands = true

  granular {
    sandbox_approval = true
    rules            = true
    mcp_elicitations = false
  }
}

sandbox {
  mode           = "workspace-write"
  writable_roots = ["/var/tmp"]
  deny_read      = ["**/.env", "keys"]
  deny_write     = ["*.lock"]
  network        = false
}

network {
  mode    = "proxy"
  allow   = ["**.example.com", "proxy.golang.org:443"]
  deny    = ["tracker.example.com"]
  methods = "limited"
}

environment {
  inherit = "core"
  exclude = ["AWS_*"]

  set {
    LANG = "C"
  }
}

secrets {
  redact_patterns = false
}

limits {
  samplings = 50
  turn_time = "30m"
  memory    = "1GiB"
  pids      = 200
  output    = "1MiB"
}

budget {
  usd         = 5.5
  turn_tokens = 400000
}

guardian {
  enabled = true
  model   = "small"
  timeout = "45s"
}

hooks {
  on_error = "block"
}

hook "note" {
  event   = "PostToolUse"
  matcher = "Bash|apply_patch"
  command = "true"
  timeout = "5s"
}

store {
  retention {
    max_age     = "90d"
    max_threads = 1000
    keep_named  = true
  }
}

review {
  model = "small"
}

profile "ci" {
  approval {
    policy = "never"
  }

  limits {
    pids = 100
  }
}
