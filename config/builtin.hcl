# What holds when no file says otherwise.

plugin "shell" {
  source = "builtin/shell"
}

approval {
  policy = "on-request"
}

# The other modes need a sandbox that this version does not have yet.
sandbox {
  mode = "full-access"
}

history {
  tool_output_tokens = 10000
}
