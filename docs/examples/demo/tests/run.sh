#!/bin/sh
# Runs every roll in tests/cases and compares the receipt with the one beside it.
set -u
cd "$(dirname "$0")/.." || exit 2
total=0
passed=0
for roll in tests/cases/*.roll; do
	total=$((total + 1))
	name=$(basename "$roll" .roll)
	want=$(cat "${roll%.roll}.receipt")
	got=$(sh till.sh "$roll")
	if [ "$got" = "$want" ]; then
		passed=$((passed + 1))
		echo "ok $total - $name"
	else
		echo "not ok $total - $name"
		echo "$want" | sed 's/^/#   want: /'
		echo "$got" | sed 's/^/#   got:  /'
	fi
done
echo "$passed of $total tests passed"
[ "$passed" -eq "$total" ]
