# What holds when no file says otherwise.

plugin "shell" {
  source = "builtin/shell"
}

# Plays a script instead of asking a model: needs no key and no network.
provider "scripted" {
  source = "builtin/scripted"
}

model "default" {
  provider = "scripted"
  name     = "scripted"
}

# Asked about is what wants more than the sandbox gives.
approval {
  policy = "on-request"
}

# Where it can't be enforced nothing runs, and the message says what is missing.
sandbox {
  mode = "workspace-write"
}

history {
  tool_output_tokens = 10000
}
