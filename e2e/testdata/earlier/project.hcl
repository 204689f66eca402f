plugin "shell" {
  source   = "builtin/shell"
  approval = "prompt"

  tool "read_*" {
    approval = "approve"
  }
}

sandbox {
  mode = "read-only"
}

history {
  tool_output_tokens = 5000
  compact_counts     = "new"
}

instructions {
  text           = file("./agent.md")
  max_bytes      = 16384
  fallback_files = ["CLAUDE.md"]
}
