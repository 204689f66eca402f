# Adds up a till roll. Money is counted in cents: 0.1 + 0.2 is not 0.3 for a computer.

function cents(amount,    part) {
	split(amount, part, ".")
	return part[1] * 100 + part[2]
}

function euros(c) {
	return sprintf("%d.%02d", c / 100, c % 100)
}

BEGIN { limit = 10000; percent = 10 }

/^#/ || NF == 0 { next }

{
	sum += cents($1)
	items++
}

END {
	printf "items    %d\n", items
	printf "sum      %s\n", euros(sum)
	if (sum > limit) {
		discount = int(sum * percent / 100)
		printf "discount %s\n", euros(discount)
	}
	printf "to pay   %s\n", euros(sum - discount)
}
