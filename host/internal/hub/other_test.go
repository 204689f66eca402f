package hub_test

func ownThreads(home string) {}
