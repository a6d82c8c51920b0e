package slackwatergrpc

import (
	"sync"

	"github.com/slackwater/slackwater/go/probe"
)

// keys are the keys of the process by their names.
var keys = keyRegistry{named: map[string]*probe.Key{}}

type keyRegistry struct {
	mu    sync.Mutex
	named map[string]*probe.Key
}

func (r *keyRegistry) find(name string) (*probe.Key, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, ok := r.named[name]
	return key, ok
}

// RegisterKey registers a key of probes by UDP or HTTP under a name, to which a configuration
// refers with probe.key. So a service config, which may come from DNS, holds no secret. Register
// keys before channels are made; a key that is registered later replaces one of the same name for
// new channels. A nil key removes the name, and a new channel that needs it fails its calls.
func RegisterKey(name string, key *probe.Key) {
	keys.mu.Lock()
	defer keys.mu.Unlock()
	if key == nil {
		delete(keys.named, name)
		return
	}
	keys.named[name] = key
}
