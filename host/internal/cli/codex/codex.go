// Package codex translates command lines that scripts and SDKs use for codex's exec, so that they can start gantry instead.
//
// It owns codex's names of settings and values and their equivalents in gantry. It does not know how flags are parsed, or what a
// setting of gantry does.
//
// Start with [Translate].
package codex

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gantry-agent/gantry/config/hint"
)

// Overrides are the requests in the settings of a command line.
type Overrides struct {
	// Sets are settings of gantry, NAME=VALUE, in the order given: unchanged ones, and translations of codex's.
	Sets []string
	// Model and Profile are the equivalents of -m and -p; empty: not set.
	Model, Profile string
	// Reasoning is the effort for any model; empty: the model's own.
	Reasoning string
	// Window is the context window for any model, in tokens; 0: the model's own.
	Window int64
	// Search enables or disables web search; nil: as configured.
	Search *bool
	// Left are settings without an equivalent that affect the agent; users should be notified.
	Left []string
}

// Translate translates settings NAME=VALUE. Settings that codex does not have, or that gantry has under the same name, are
// unchanged. Errors name the setting and the next step.
func Translate(settings []string) (Overrides, error) {
	var o Overrides
	var provider, model string
	for _, text := range settings {
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok {
			o.Sets = append(o.Sets, text)
			continue
		}
		switch name {
		case "model":
			model = plain(value)
			continue
		case "model_provider":
			provider = plain(value)
			continue
		}
		if err := o.setting(text, name, value); err != nil {
			return o, err
		}
	}
	switch {
	case provider != "" && model == "":
		return o, hint.With(fmt.Errorf("model_provider=%s names no model", provider), fmt.Sprintf("say --model %s/MODEL", provider))
	case provider != "":
		o.Model = provider + "/" + model
	default:
		o.Model = model
	}
	return o, nil
}

// renamed are settings that gantry has under another name, with values of the same form.
var renamed = map[string]string{
	"sandbox_workspace_write.network_access": "sandbox.network",
	"sandbox_workspace_write.writable_roots": "sandbox.writable_roots",
	"shell_environment_policy.inherit":       "environment.inherit",
	"shell_environment_policy.exclude":       "environment.exclude",
	"shell_environment_policy.include_only":  "environment.include_only",
	"openai_base_url":                        "provider.openai.base_url",
	"project_doc_max_bytes":                  "instructions.max_bytes",
	"project_doc_fallback_filenames":         "instructions.fallback_files",
	"project_root_markers":                   "instructions.root_markers",
	"tool_output_token_limit":                "history.tool_output_tokens",
	"model_auto_compact_token_limit":         "history.compact_at_tokens",
	"compact_prompt":                         "history.compact_prompt",
}

// shown are settings, and blocks of settings, that only affect codex's display and reports.
var shown = []string{
	"analytics", "check_for_update_on_startup", "disable_paste_burst", "feedback", "file_opener", "hide_agent_reasoning",
	"history.max_bytes", "history.persistence", "model_reasoning_summary", "notice", "otel", "show_raw_agent_reasoning", "tui",
	"windows_wsl_setup_acknowledged",
}

// others are settings of codex without an equivalent in gantry.
var others = []string{
	"agents.interrupt_message", "agents.job_max_runtime_seconds", "allow_login_shell", "apps", "developer_instructions", "experimental_", "features", "mcp_servers", "memories",
	"model_providers", "model_verbosity", "notify", "permissions", "personality", "plan_mode_reasoning_effort", "projects",
	"review_model", "service_tier", "shell_environment_policy", "skills", "tools",
}

func (o *Overrides) setting(text, name, value string) error {
	if to, ok := renamed[name]; ok {
		o.Sets = append(o.Sets, to+"="+expression(value))
		return nil
	}
	if variable, ok := strings.CutPrefix(name, "shell_environment_policy.set."); ok {
		o.Sets = append(o.Sets, "environment.set."+variable+"="+expression(value))
		return nil
	}
	switch name {
	case "shell_environment_policy.ignore_default_excludes":
		keep, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return hint.With(fmt.Errorf("%s=%s is neither true nor false", name, value), "write one of them")
		}
		o.Sets = append(o.Sets, fmt.Sprintf("environment.default_excludes=%v", !keep))
	case "profile":
		o.Profile = plain(value)
	case "model_reasoning_effort":
		o.Reasoning = plain(value)
	case "model_context_window":
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		if err != nil || n <= 0 {
			return hint.With(fmt.Errorf("model_context_window=%s is no number of tokens", value), "write one, or leave it out")
		}
		o.Window = n
	case "approval_policy":
		policy, err := Approval(plain(value))
		if err != nil {
			return err
		}
		o.Sets = append(o.Sets, "approval.policy="+policy)
	case "sandbox_mode":
		mode, err := Sandbox(plain(value))
		if err != nil {
			return err
		}
		o.Sets = append(o.Sets, "sandbox.mode="+mode)
	case "web_search":
		switch v := plain(value); v {
		case "live", "cached", "indexed":
			o.Search = new(true)
		case "disabled":
			o.Search = new(false)
		default:
			return hint.With(fmt.Errorf("web_search=%s is not known", v), "write live, cached or disabled")
		}
	case "features.shell_tool":
		o.Sets = append(o.Sets, "plugin.shell.enabled="+value)
	case "tools.web_search", "features.web_search_request", "features.web_search":
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return hint.With(fmt.Errorf("%s=%s is neither true nor false", name, value), "write one of them")
		}
		o.Search = &on
	default:
		switch {
		case under(name, shown):
		case strings.HasPrefix(name, "features.") && strings.TrimSpace(value) == "false": // gantry lacks the feature, so it is off
		case under(name, others):
			o.Left = append(o.Left, name)
		default:
			o.Sets = append(o.Sets, text)
		}
	}
	return nil
}

// under reports whether a name is in all, or belongs to a block in it. An entry that ends in "_" is a prefix.
func under(name string, all []string) bool {
	return slices.ContainsFunc(all, func(s string) bool {
		return name == s || strings.HasPrefix(name, s+".") || strings.HasSuffix(s, "_") && strings.HasPrefix(name, s)
	})
}

// Sandbox returns gantry's name for a sandbox mode.
func Sandbox(mode string) (string, error) {
	switch mode {
	case "danger-full-access", "full-access":
		return "full-access", nil
	case "read-only", "workspace-write":
		return mode, nil
	}
	return "", hint.With(fmt.Errorf("there is no sandbox mode %q", mode), "write read-only, workspace-write or danger-full-access")
}

// Approval returns gantry's name for an approval policy. Codex's question after a failure corresponds to the question when a call
// needs more permissions.
func Approval(policy string) (string, error) {
	switch policy {
	case "never", "on-request", "untrusted":
		return policy, nil
	case "on-failure":
		return "on-request", nil
	}
	return "", hint.With(fmt.Errorf("there is no approval policy %q", policy), "write untrusted, on-request or never")
}

// Assigns reports whether the argument of --config is a setting, as in codex, rather than a file name: a dotted name followed by
// "=".
func Assigns(arg string) bool {
	name, _, ok := strings.Cut(arg, "=")
	if !ok || name == "" {
		return false
	}
	return strings.Trim(strings.ToLower(name), `abcdefghijklmnopqrstuvwxyz0123456789_-."`) == ""
}

// plain returns the string that a TOML value represents. As in codex, anything else represents itself.
func plain(value string) string {
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && value[0] == value[n-1] {
		switch value[0] {
		case '\'':
			return value[1 : n-1]
		case '"':
			if s, err := strconv.Unquote(value); err == nil {
				return s
			}
		}
	}
	return value
}

// expression converts a TOML value to HCL, which has the same numbers, booleans and lists. Template sequences, which TOML lacks,
// are escaped.
func expression(value string) string {
	value = strings.TrimSpace(value)
	if !strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, `'`) {
		return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(value)
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(plain(value)))
}
