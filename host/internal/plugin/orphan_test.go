package plugin_test

const hostVariable = "HOST_UNDER_TEST"

func helperHost(string) int { return 0 }
