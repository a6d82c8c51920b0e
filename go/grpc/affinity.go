package slackwatergrpc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"

	affinity "github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// keyConfig says which calls belong together.
type keyConfig struct {
	// metadata is the name of the metadata that has a call's key, in lower case; empty if calls have
	// no keys.
	metadata string
	// secret is the registered name of the secret that keys are hashed with, or empty.
	secret   string
	settings affinity.Settings
}

func (c *keyConfig) decode(path string, text json.RawMessage) error {
	known := settingFields(&c.settings)
	// Only a policy that waits for probes has hints, and a picker may not wait.
	delete(known, "hintHomes")
	known["metadata"] = func(path string, text json.RawMessage) error {
		return decodeMetadata(path, text, &c.metadata)
	}
	known["secret"] = func(path string, text json.RawMessage) error {
		return decodeSecret(path, text, &c.secret)
	}
	if err := decodeObject(path, text, known); err != nil {
		return err
	}
	if c.metadata == "" {
		return fmt.Errorf("%s.metadata is missing: the name of the metadata that has a call's key", path)
	}
	return nil
}

// decodeMetadata decodes the name of metadata with text values.
func decodeMetadata(path string, text json.RawMessage, into *string) error {
	var name string
	isName := json.Unmarshal(text, &name) == nil && name != ""
	name = strings.ToLower(name)
	isOther := strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	})
	if !isName || isOther || strings.HasSuffix(name, "-bin") || strings.HasPrefix(name, "grpc-") {
		return fmt.Errorf(`%s must be the name of metadata with text values, such as "x-user"; got %s`,
			path, shorten(text))
	}
	*into = name
	return nil
}

func decodeSecret(path string, text json.RawMessage, into *string) error {
	if json.Unmarshal(text, into) != nil {
		return fmt.Errorf("%s must be the name of a secret; got %s", path, shorten(text))
	}
	if _, ok := secrets.Load(*into); !ok {
		return fmt.Errorf("%s %q is unknown: register it with slackwatergrpc.RegisterKeySecret", path, *into)
	}
	return nil
}

// secrets are the hashers with the process's secrets by their names.
var secrets sync.Map

// RegisterKeySecret registers a secret under a name, to which a configuration refers with
// key.secret: keys of calls are hashed with it, so that those who make calls cannot construct keys
// that all belong to one endpoint. It needs 16 random bytes or more, the same for all clients,
// and fails with fewer. So a service config, which may come from DNS, holds no secret. Register
// secrets before channels are made; one that is registered later replaces one of the same name for
// new channels. A nil secret removes the name, and a new channel that needs it fails its calls.
func RegisterKeySecret(name string, secret []byte) error {
	switch {
	case secret == nil:
		secrets.Delete(name)
		return nil
	case len(secret) < affinity.SecretBytesMin:
		return fmt.Errorf("slackwater: the secret %q has %d bytes: it needs %d or more",
			name, len(secret), affinity.SecretBytesMin)
	}
	secrets.Store(name, affinity.NewSecretHasher(secret))
	return nil
}

// hasher returns what hashes keys. It fails if the secret has been removed since.
func (c *keyConfig) hasher() (affinity.Hasher, error) {
	if c.secret == "" {
		return affinity.NewHasher(), nil
	}
	found, _ := secrets.Load(c.secret)
	hasher, ok := found.(affinity.Hasher)
	if !ok {
		return hasher, fmt.Errorf("key.secret %q has been removed", c.secret)
	}
	return hasher, nil
}

// wrap puts keys around a policy, if calls have keys.
func (c *keyConfig) wrap(p policy.Policy) (policy.Policy, error) {
	if c.metadata == "" {
		return p, nil
	}
	return affinity.Wrap(p, c.settings)
}

// keyOf returns the hash of a call's key, if it has one: the first value of its metadata.
func (e *engine) keyOf(ctx context.Context) policy.Optional[policy.KeyHash] {
	name := e.config.key.metadata
	if name == "" {
		return policy.Optional[policy.KeyHash]{}
	}
	sent, _ := metadata.FromOutgoingContext(ctx)
	values := sent.Get(name)
	if len(values) == 0 {
		return policy.Optional[policy.KeyHash]{}
	}
	return e.hasher.Of(values[0])
}
