# Kept by gantry: `gantry plugin lock`, `add` and `remove` write this file.
# Commit it. It says which content each plugin must have; anything else is refused.

plugin "./plug/weather" {
  version     = "1.0.0"
  contract    = 1
  manifest    = "m1:DAx7Ob1NuL8ZF/bP7+U7LyBqdQLdKgr3ja3MP5U6cmQ="
  grants      = "g1:pAmMaEf9GelJxV7hMPYhnqyFmSNDQGHRqwjQrdh/iWA="
  files       = "f1:BHanHmzx4P6K9W/UnkzRhfJZOWEpLB7JhtcQ/U593A8="

  platform "linux_amd64" {
    binary  = "b1:3bvjNN5iMSkyn5/PmDU8W1xWlNvJcttKN5Bk0b9kd8o="
  }
}
