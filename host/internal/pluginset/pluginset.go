// Package pluginset runs the plugins of a configuration.
//
// It owns: the calls to plugins that are safe to repeat. It must not know: threads and turns.
package pluginset
