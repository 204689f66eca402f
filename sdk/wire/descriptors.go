package wire

import "fmt"

// maxDescriptors is the maximum number of descriptors in a message. A process has at most three; the kernel's limit is 253.
const maxDescriptors = 16

func checkDescriptorCount(n int) error {
	if n < 1 || n > maxDescriptors {
		return fmt.Errorf("%d descriptors: a message contains 1 to %d", n, maxDescriptors)
	}
	return nil
}
