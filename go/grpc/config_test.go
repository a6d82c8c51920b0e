package slackwatergrpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	affinity "github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
	"github.com/slackwater/slackwater/go/probe"
)

// registerNames registers the key and the secret that configurations in tests name.
func registerNames(t *testing.T) {
	t.Helper()
	key, err := probe.NewKey([]byte("sixteen bytes or"))
	if err != nil {
		t.Fatal(err)
	}
	RegisterKey("probes", key)
	registerSecret(t, "affinity")
	t.Cleanup(func() { RegisterKey("probes", nil) })
}

func TestParseConfig(t *testing.T) {
	registerNames(t)

	with := func(change func(*config)) *config {
		c := defaultConfig()
		change(c)
		return c
	}
	for _, test := range []struct {
		name, text string
		want       *config
		err        string
	}{
		{name: "empty", text: `{}`, want: defaultConfig()},
		{
			name: "null is absent",
			text: `{"policy": null, "probe": null, "prequal": {"reportAgeMax": null}, "explain": null}`,
			want: defaultConfig(),
		},
		{
			name: "unknown fields are ignored",
			text: `{"later": [1], "probe": {"later": {}}, "prequal": {"probe_rate": 9}}`,
			want: defaultConfig(),
		},
		{
			name: "every part",
			text: `{
				"policy": "prequal",
				"probe": {"transport": "udp", "port": 9000, "path": "/load", "key": "probes"},
				"prequal": {"probeRate": 2.5, "rifLimitQuantile": 0.84, "reportAgeMax": "1.500s",
					"poolCapacity": 32, "idleProbes": 0},
				"shortestExpectedDelay": {"probeRate": 0.25, "latencyBand": 0, "costBand": 10},
				"health": "off",
				"explain": 64
			}`,
			want: with(func(c *config) {
				c.policy = "prequal"
				c.probe = probeConfig{transport: "udp", port: 9000, path: "/load", key: "probes"}
				c.settings.Prequal.ProbeRate = 2_500_000
				c.settings.Prequal.RIFLimitQuantile = 840_000
				c.settings.Prequal.ReportAgeMax = 1500 * time.Millisecond
				c.settings.Prequal.PoolCapacity = 32
				c.settings.Prequal.IdleProbes = 0
				c.settings.ShortestExpectedDelay = policy.ShortestExpectedDelaySettings{
					ProbeRate: 250_000, LatencyBand: 0, CostBand: 10 * policy.One,
				}
				c.health = "off"
				c.explain = 64
			}),
		},
		{
			name: "numbers as doubles, as in a TypedStruct",
			text: `{"probe": {"transport": "http", "port": 9e3}, "explain": 6.4e+01,
				"prequal": {"probesPerSecondMax": 1e+06, "syncProbes": 4.0, "probeDeadline": "0.050s"}}`,
			want: with(func(c *config) {
				c.probe.transport, c.probe.port, c.explain = "http", 9000, 64
				c.settings.Prequal.ProbesPerSecondMax = 1_000_000
				c.settings.Prequal.SyncProbes = 4
			}),
		},
		{
			name: "without probes",
			text: `{"probe": {"transport": "none"}}`,
			want: with(func(c *config) {
				c.probe.transport = "none"
				c.settings.Prequal.LocalOnly = true
			}),
		},
		{name: "durations as Go has them", text: `{"prequal": {"probeDeadline": "20ms"}}`,
			want: with(func(c *config) { c.settings.Prequal.ProbeDeadline = 20 * time.Millisecond })},

		{name: "not an object", text: `[]`, err: `the configuration must be a JSON object; got []`},
		{name: "not JSON", text: `{`, err: `the configuration must be a JSON object; got malformed JSON`},
		{name: "part that is not an object", text: `{"probe": 7}`,
			err: `probe must be a JSON object; got 7`},
		{name: "unknown policy", text: `{"policy": "fastest"}`,
			err: `policy must be one of "shortest_expected_delay", "prequal", "least_loaded", "random"; got "fastest"`},
		{name: "policy that waits", text: `{"policy": "prequal_sync"}`,
			err: `policy "prequal_sync" waits for answers to probes, and a picker of gRPC may not wait: ` +
				`use "prequal" here, or package httplb of github.com/slackwater/slackwater/go`},
		{name: "unknown transport", text: `{"probe": {"transport": "tcp"}}`,
			err: `probe.transport must be one of "grpc", "udp", "http", "none"; got "tcp"`},
		{name: "port 0", text: `{"probe": {"port": 0}}`,
			err: `probe.port must be a whole number from 1 to 65535; got 0`},
		{name: "port too large", text: `{"probe": {"port": 65536}}`,
			err: `probe.port must be a whole number from 1 to 65535; got 65536`},
		{name: "port as text", text: `{"probe": {"port": "9000"}}`,
			err: `probe.port must be a whole number from 1 to 65535; got "9000"`},
		{name: "half a port", text: `{"probe": {"port": 9000.5}}`,
			err: `probe.port must be a whole number from 1 to 65535; got 9000.5`},
		{name: "path of another host", text: `{"probe": {"path": "@evil/"}}`,
			err: `probe.path must be a text that begins with "/"; got "@evil/"`},
		{name: "path with a line break", text: `{"probe": {"path": "/a\r\nb"}}`,
			err: `probe.path must be a text that begins with "/"; got "/a\r\nb"`},
		{name: "unknown key", text: `{"probe": {"transport": "udp", "key": "other"}}`,
			err: `probe.key "other" is unknown: register it with slackwatergrpc.RegisterKey`},
		{name: "key without use", text: `{"probe": {"key": "probes"}}`,
			err: `probe.key is for probe.transport "udp" and "http"; got "grpc"`},
		{name: "setting out of range", text: `{"prequal": {"poolCapacity": 1}}`,
			err: `prequal.poolCapacity must be from 2 to 256`},
		{name: "setting beyond its type", text: `{"prequal": {"poolCapacity": 65538}}`,
			err: `prequal.poolCapacity must be from 2 to 256`},
		{name: "negative setting", text: `{"prequal": {"idleProbes": -1}}`,
			err: `prequal.idleProbes must be from 0 to 16`},
		{name: "negative rate", text: `{"prequal": {"probeRate": -0.5}}`,
			err: `prequal.probeRate must be from 0 to 16 a query`},
		{name: "huge rate", text: `{"prequal": {"probeRate": 1e300}}`,
			err: `prequal.probeRate must be from 0 to 16 a query`},
		{name: "quantile", text: `{"prequal": {"rifLimitQuantile": 1.1}}`,
			err: `prequal.rifLimitQuantile must be from 0 to 1`},
		{name: "band", text: `{"shortestExpectedDelay": {"latencyBand": 10.5}}`,
			err: `shortestExpectedDelay.latencyBand must be from 0 to 10`},
		{name: "rate as text", text: `{"shortestExpectedDelay": {"probeRate": "1"}}`,
			err: `shortestExpectedDelay.probeRate must be a number; got "1"`},
		{name: "fraction of a count", text: `{"prequal": {"reuseMax": 1.5}}`,
			err: `prequal.reuseMax must be a whole number; got 1.5`},
		{name: "duration as a number", text: `{"prequal": {"probeDeadline": 0.05}}`,
			err: `prequal.probeDeadline must be a duration such as "0.050s"; got 0.05`},
		{name: "duration without a unit", text: `{"prequal": {"probeDeadline": "50"}}`,
			err: `prequal.probeDeadline must be a duration such as "0.050s"; got "50"`},
		{name: "negative duration", text: `{"prequal": {"probeDeadline": "-1s"}}`,
			err: `prequal.probeDeadline must be above 0 and at most 1 minute`},
		{name: "flag", text: `{"prequal": {"localOnly": 1}}`,
			err: `prequal.localOnly must be true or false; got 1`},
		{
			name: "key",
			text: `{"key": {"metadata": "X-User", "secret": "affinity", "balanceFactor": 1.5, "set": 8.0,
				"partitions": 64, "replicateMax": 4, "replicateAbove": 0.4, "replicateTime": "5s"}}`,
			want: with(func(c *config) {
				c.key.metadata, c.key.secret = "x-user", "affinity"
				c.key.settings = affinity.Settings{
					BalanceFactor: 1_500_000, Set: 8, Partitions: 64, ReplicateMax: 4,
					ReplicateAbove: 400_000, ReplicateTime: 5 * time.Second, HintHomes: 2,
				}
			}),
		},
		{name: "key without metadata", text: `{"key": {"set": 4}}`,
			err: `key.metadata is missing: the name of the metadata that has a call's key`},
		{name: "key of binary metadata", text: `{"key": {"metadata": "x-user-bin"}}`,
			err: `key.metadata must be the name of metadata with text values, such as "x-user"; got "x-user-bin"`},
		{name: "key of a pseudo-header", text: `{"key": {"metadata": ":path"}}`,
			err: `key.metadata must be the name of metadata with text values, such as "x-user"; got ":path"`},
		{name: "key by number", text: `{"key": {"metadata": 7}}`,
			err: `key.metadata must be the name of metadata with text values, such as "x-user"; got 7`},
		{name: "unknown secret", text: `{"key": {"metadata": "x-user", "secret": "other"}}`,
			err: `key.secret "other" is unknown: register it with slackwatergrpc.RegisterKeySecret`},
		{name: "bound out of range", text: `{"key": {"metadata": "x-user", "balanceFactor": 0.5}}`,
			err: `key.balanceFactor must be 0 or from 1 to 1,000`},
		{name: "bound as text", text: `{"key": {"metadata": "x-user", "balanceFactor": "125%"}}`,
			err: `key.balanceFactor must be a number; got "125%"`},
		{name: "set beyond its type", text: `{"key": {"metadata": "x-user", "set": 260}}`,
			err: `key.set must be from 1 to 16`},
		{name: "replication without partitions", text: `{"key": {"metadata": "x-user", "replicateMax": 2}}`,
			err: `key.replicateMax must be 1 without partitions`},
		{name: "health", text: `{"health": "strict"}`,
			err: `health must be one of "standard", "off"; got "strict"`},
		{name: "too many picks", text: `{"explain": 1025}`,
			err: `explain must be a whole number from 0 to 1024; got 1025`},
		{name: "long value", text: `{"policy": "` + strings.Repeat("x", 100) + `"}`,
			err: `policy must be one of "shortest_expected_delay", "prequal", "least_loaded", "random"; got "` +
				strings.Repeat("x", 59) + `…`},
	} {
		t.Run(test.name, func(t *testing.T) {
			parsed, err := builder{}.ParseConfig(json.RawMessage(test.text))
			if test.err != "" {
				if err == nil || err.Error() != "slackwater: "+test.err {
					t.Fatalf("error %q, want %q", err, "slackwater: "+test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, ok := parsed.(*config)
			if !ok || !same(got, test.want) {
				t.Errorf("parsed as %+v, want %+v", parsed, test.want)
			}
			// Under xDS, gRPC writes it and parses it again.
			text, err := json.Marshal(parsed)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseConfig(text); err != nil || !same(again, got) {
				t.Errorf("written as %s and parsed as %+v, %v", text, again, err)
			}
		})
	}
}

// same reports whether two configurations are equal, but for their texts.
func same(a, b *config) bool { return a.choosesAlike(b) && a.explain == b.explain }

// A change of any part makes another choice, but for what is kept for display.
func TestConfigurationsThatChooseAlike(t *testing.T) {
	explained, err := parseConfig(json.RawMessage(`{"explain": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	if !defaultConfig().choosesAlike(defaultConfig()) || !defaultConfig().choosesAlike(explained) {
		t.Error("the default differs from itself")
	}
	text, err := json.Marshal(defaultConfig())
	if err != nil || string(text) != "{}" {
		t.Errorf("the default is written as %s, %v", text, err)
	}
	for _, text := range []string{
		`{"policy": "random"}`, `{"health": "off"}`, `{"probe": {"port": 1}}`,
		`{"key": {"metadata": "x-user"}}`, `{"prequal": {"idleProbes": 1}}`, `{"shortestExpectedDelay": {"costBand": 1}}`,
	} {
		c, err := parseConfig(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		if c.choosesAlike(defaultConfig()) {
			t.Errorf("%s chooses as the default", text)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(`{"policy": "prequal", "probe": {"transport": "udp", "port": 9000}}`)
	f.Add(`{"prequal": {"probeRate": 3, "reportAgeMax": "1s"}, "explain": 64}`)
	f.Add(`{"key": {"metadata": "x-user", "balanceFactor": 1.25, "set": 4}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig(json.RawMessage(text))
		if err != nil {
			return
		}
		// What is accepted makes a policy.
		if err := errors.Join(c.settings.Validate(), c.key.settings.Validate()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
