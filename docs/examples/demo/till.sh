#!/bin/sh
# Prints the receipt of a till roll.
set -eu
here=$(dirname "$0")
exec awk -f "$here/lib/till.awk" "$@"
