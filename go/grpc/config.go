package slackwatergrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/serviceconfig"

	affinity "github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// The policies that can be configured, and the one that applies if none is.
const (
	policyDefault = "shortest_expected_delay"
	policySync    = "prequal_sync"
)

var policyNames = []string{policyDefault, "prequal", "least_loaded", "random"}

// The ways to send probes.
const (
	transportGRPC = "grpc"
	transportUDP  = "udp"
	transportHTTP = "http"
	transportNone = "none"
)

var transportNames = []string{transportGRPC, transportUDP, transportHTTP, transportNone}

// What is done about endpoints that fail.
const (
	healthStandard = "standard"
	healthOff      = "off"
)

var healthNames = []string{healthStandard, healthOff}

// explainMax is the most picks that are kept for display.
const explainMax = 1024

// config is a parsed configuration. It is not changed any more, and always valid.
type config struct {
	serviceconfig.LoadBalancingConfig

	policy   string
	settings policy.Settings
	probe    probeConfig
	key      keyConfig
	// health is one of healthNames.
	health string
	// explain is how many of the latest picks are kept for display.
	explain uint16
	// text is the configuration as it was read.
	text json.RawMessage
}

// MarshalJSON returns the configuration as it was read. Under xDS, gRPC writes the parsed
// configuration of a cluster as JSON and parses it again.
func (c *config) MarshalJSON() ([]byte, error) {
	if c.text == nil {
		return []byte("{}"), nil
	}
	return c.text, nil
}

// probeConfig says how probes are sent.
type probeConfig struct {
	transport string
	// port is where UDP and HTTP probes are answered; 0 is the endpoint's own port.
	port uint16
	// path is that of HTTP probes.
	path string
	// key is the registered name of the key of UDP and HTTP probes, or empty.
	key string
}

func defaultConfig() *config {
	return &config{
		policy:   policyDefault,
		settings: policy.DefaultSettings(),
		probe:    probeConfig{transport: transportGRPC, path: probe.Path},
		key:      keyConfig{settings: affinity.DefaultSettings()},
		health:   healthStandard,
	}
}

// choosesAlike reports whether both choose alike: they may differ in what is kept for display.
func (c *config) choosesAlike(other *config) bool {
	return c.policy == other.policy && c.settings == other.settings &&
		c.probe == other.probe && c.key == other.key && c.health == other.health
}

// readsCarried reports whether reports that come with responses save probes.
func (c *config) readsCarried() bool {
	return c.policy == policyDefault && c.probe.transport != transportNone
}

// ParseConfig parses the configuration of a service config, or of an xDS TypedStruct, in which
// every number is a double. It ignores unknown fields, with a warning in gRPC's log.
func (builder) ParseConfig(text json.RawMessage) (serviceconfig.LoadBalancingConfig, error) {
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("slackwater: %w", err)
	}
	return c, nil
}

func parseConfig(text json.RawMessage) (*config, error) {
	c := defaultConfig()
	err := decodeObject("", text, fields{
		"policy": func(path string, text json.RawMessage) error {
			return decodePolicy(path, text, &c.policy)
		},
		"probe": func(path string, text json.RawMessage) error {
			return decodeObject(path, text, c.probe.fields())
		},
		"key": c.key.decode,
		"health": func(path string, text json.RawMessage) error {
			return decodeName(path, text, healthNames, &c.health)
		},
		"prequal":               settingsDecoder(&c.settings.Prequal),
		"shortestExpectedDelay": settingsDecoder(&c.settings.ShortestExpectedDelay),
		"explain": func(path string, text json.RawMessage) error {
			return decodeWhole(path, text, 0, explainMax, &c.explain)
		},
	})
	if err != nil {
		return nil, err
	}
	if c.probe.key != "" && c.probe.transport != transportUDP && c.probe.transport != transportHTTP {
		return nil, fmt.Errorf(`probe.key is for probe.transport "udp" and "http"; got %q`, c.probe.transport)
	}
	if c.probe.transport == transportNone {
		c.settings.Prequal.LocalOnly = true
	}
	if err := c.settings.Validate(); err != nil {
		return nil, settingError(err)
	}
	if err := c.key.settings.Validate(); err != nil {
		return nil, settingError(err)
	}
	c.text = slices.Clone(text)
	return c, nil
}

func (c *probeConfig) fields() fields {
	return fields{
		"transport": func(path string, text json.RawMessage) error {
			return decodeName(path, text, transportNames, &c.transport)
		},
		"port": func(path string, text json.RawMessage) error {
			return decodeWhole(path, text, 1, 65535, &c.port)
		},
		"path": func(path string, text json.RawMessage) error {
			return decodePath(path, text, &c.path)
		},
		"key": func(path string, text json.RawMessage) error {
			return decodeKey(path, text, &c.key)
		},
	}
}

func decodePolicy(path string, text json.RawMessage, into *string) error {
	var name string
	if json.Unmarshal(text, &name) == nil && name == policySync {
		return fmt.Errorf("%s %q waits for answers to probes, and a picker of gRPC may not wait: "+
			`use "prequal" here, or package httplb of github.com/slackwater/slackwater/go`, path, name)
	}
	return decodeName(path, text, policyNames, into)
}

func decodePath(path string, text json.RawMessage, into *string) error {
	if json.Unmarshal(text, into) != nil || !strings.HasPrefix(*into, "/") ||
		strings.ContainsAny(*into, " \t\r\n#") {
		return fmt.Errorf(`%s must be a text that begins with "/"; got %s`, path, shorten(text))
	}
	return nil
}

func decodeKey(path string, text json.RawMessage, into *string) error {
	if json.Unmarshal(text, into) != nil {
		return fmt.Errorf("%s must be the name of a key; got %s", path, shorten(text))
	}
	if _, ok := keys.find(*into); !ok {
		return fmt.Errorf("%s %q is unknown: register it with slackwatergrpc.RegisterKey", path, *into)
	}
	return nil
}

func decodeName(path string, text json.RawMessage, names []string, into *string) error {
	var name string
	if json.Unmarshal(text, &name) != nil || !slices.Contains(names, name) {
		return fmt.Errorf(`%s must be one of "%s"; got %s`,
			path, strings.Join(names, `", "`), shorten(text))
	}
	*into = name
	return nil
}

// settingError names a setting by its path in the configuration.
func settingError(err error) error {
	var setting *policy.SettingError
	if !errors.As(err, &setting) {
		return err
	}
	name, inMillionths := strings.CutSuffix(setting.Field, "_millionths")
	expected := setting.Expected
	if inMillionths {
		// The configuration has such a setting as a plain number.
		expected = "from 0 to 10"
	}
	return fmt.Errorf("%s must be %s", camelCase(name), expected)
}

// camelCase turns shortest_expected_delay.probe_rate into shortestExpectedDelay.probeRate.
func camelCase(name string) string {
	var camel strings.Builder
	for i, word := range strings.Split(name, "_") {
		if i > 0 && word != "" {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		camel.WriteString(word)
	}
	return camel.String()
}

// shorten returns a value for an error, without line breaks and not too long.
func shorten(text json.RawMessage) string {
	const longest = 60
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return "malformed JSON"
	}
	if compact.Len() <= longest {
		return compact.String()
	}
	return strings.ToValidUTF8(compact.String()[:longest], "") + "…"
}
