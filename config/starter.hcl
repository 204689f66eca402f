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
#     network = ["*"]
#   }
#
#   limits {
#     memory = "256MiB"
#   }
# }

# When you are asked: "on-request" when a call wants more than the sandbox gives, "untrusted" before
# every call that does more than reading, "never" not at all. Where there is no terminal, what would
# be asked is refused.
approval {
  policy = "on-request"
}

# What commands may do. "workspace-write": write this folder and a /tmp of their own; "read-only":
# nothing; "full-access": whatever you can do, which is for containers and the like. The first two
# need Linux and bubblewrap; where they can't be enforced nothing runs. `gantry sandbox explain`
# says what is in force.
sandbox {
  mode = "workspace-write"
}

# What commands reach of the network: nothing, unless you say so here. About hosts that "allow" does
# not name you are asked.
#
# network {
#   mode  = "proxy"
#   allow = ["github.com", "**.golang.org"]
# }

# Settings for one occasion, a container of its own for example: `gantry exec --profile ci "..."`.
profile "ci" {
  approval {
    policy = "never"
  }
}
