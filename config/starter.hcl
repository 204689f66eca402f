# gantry's configuration. `gantry config schema` lists everything that may stand here,
# `gantry config show` what holds in the end and which file says so.

# A provider speaks to a vendor's models: builtin/openai, anthropic, google, bedrock, ollama, or
# compatible for all the others. Beside source, every argument is the provider's own;
# `gantry plugin inspect NAME` shows them. A key that is not set disturbs only its own provider.
# Until there is one, the built-in "scripted" provider plays a short demonstration without any model.
#
# provider "openai" {
#   source  = "builtin/openai"
#   api_key = env("OPENAI_API_KEY")
# }

# A model under a name of yours. "default" is what a new thread uses.
#
# model "default" {
#   provider  = "openai"
#   name      = "gpt-5.4"
#   reasoning = "medium"
# }

# Tools. The shell comes with gantry; a plugin of your own is a program at a path.
# `gantry plugin lock` pins its content.
#
# plugin "weather" {
#   source = "./bin/weather"
#
#   config {
#     units = "metric"
#   }
#
#   permissions {
#     network = ["api.example.com:443"]
#   }
#
#   limits {
#     memory = "256MiB"
#   }
# }

# When you are asked. This version has no sandbox: a command can do whatever you can. "untrusted"
# therefore asks on the terminal before every call that does more than reading, and refuses such a
# call where there is no terminal. "on-request" asks only when a call wants more than the sandbox
# gives, which without a sandbox is never; "never" asks nothing. Both let every command run: use
# them where nothing can be lost, in a container for example.
approval {
  policy = "untrusted"
}

# "full-access" is the only mode that this version can enforce.
sandbox {
  mode = "full-access"
}

# Settings for one occasion, a container of its own for example: `gantry exec --profile ci "..."`.
profile "ci" {
  approval {
    policy = "never"
  }
}
