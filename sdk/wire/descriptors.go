package wire

import "fmt"

// maxDescriptors is how many descriptors one message may carry; the kernel takes 253. A process has three at most.
const maxDescriptors = 16

func checkDescriptorCount(n int) error {
	if n < 1 || n > maxDescriptors {
		return fmt.Errorf("%d descriptors: one message carries 1 to %d", n, maxDescriptors)
	}
	return nil
}
