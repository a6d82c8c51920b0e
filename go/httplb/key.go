package httplb

import (
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// keyOptions say which requests belong together.
type keyOptions struct {
	// of returns the key of a request; nil if requests have no keys.
	of       func(*http.Request) string
	settings keys.Settings
	hasher   keys.Hasher
	// isSecretShort says that the hasher's secret can be guessed.
	isSecretShort bool
}

// WithKey sends requests with the same key to the same replicas, within a bound on their load: see
// package keys. The function returns what a request is about, such as a user, or "" if it has no
// key; then the policy alone chooses. Only the first 4 KiB of a key count. The function must not
// change the request, and is called by each attempt of a query. [KeyFromHeader] returns one. Usual
// settings are those of [keys.DefaultSettings]. Default: requests have no keys.
//
// Clients that have the same replicas at the same addresses agree on the replicas of a key, and so
// does Slackwater's proxy, if its replicas have no weights.
func WithKey(key func(*http.Request) string, settings keys.Settings) Option {
	return func(o *options) { o.key.of, o.key.settings = key, settings }
}

// KeyFromHeader returns a function for [WithKey]: the key is the first value of a header.
func KeyFromHeader(name string) func(*http.Request) string {
	return func(request *http.Request) string {
		if http.CanonicalHeaderKey(name) == "Host" {
			return request.Host
		}
		return request.Header.Get(name)
	}
}

// WithKeySecret hashes keys with a secret, so that those who send requests cannot construct keys
// that all belong to one replica. It needs [keys.SecretBytesMin] random bytes or more, the same for
// all clients and for Slackwater's proxy, whose seed_file has them as hexadecimal digits; [New]
// fails with fewer. Default: a public seed.
func WithKeySecret(secret []byte) Option {
	return func(o *options) {
		o.key.isSecretShort = len(secret) < keys.SecretBytesMin
		o.key.hasher = keys.NewSecretHasher(secret)
	}
}

// hash returns the hash of a request's key, if it has one.
func (k *keyOptions) hash(request *http.Request) policy.Optional[policy.KeyHash] {
	if k.of == nil {
		return policy.Optional[policy.KeyHash]{}
	}
	return k.hasher.Of(k.of(request))
}

// addressOf returns the host and the port of a replica's URL, by which keys know it.
func addressOf(u *url.URL) string {
	port, err := portOf(u)
	if err != nil {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), strconv.Itoa(int(port)))
}
