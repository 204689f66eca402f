# What also holds in a project that the user has not agreed to.

sandbox {
  mode = "read-only"
}
