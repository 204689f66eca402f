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

# There is no sandbox yet, so whatever has an effect is asked about.
approval {
  policy = "untrusted"
}

# The other modes need a sandbox that this version does not have yet.
sandbox {
  mode = "full-access"
}

history {
  tool_output_tokens = 10000
}
