package keys_test

import (
	"fmt"

	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// Requests of one user go to one server, until it has more than its share of all requests.
func Example() {
	inner, err := policy.New(policy.Default, policy.DefaultSettings())
	if err != nil {
		fmt.Println(err)
		return
	}
	settings := keys.DefaultSettings()
	settings.BalanceFactor = policy.One // no more than the mean
	p, err := keys.Wrap(inner, settings)
	if err != nil {
		fmt.Println(err)
		return
	}
	servers := map[policy.ReplicaID]string{}
	var ids policy.ReplicaIDs
	for _, address := range []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"} {
		replica, _ := ids.Allocate()
		servers[replica] = address
		p.Handle(0, policy.Event{Kind: policy.EventAdded, Replica: replica}, nil)
		identity := keys.IdentityOf(address, 0)
		p.Handle(0, policy.Event{Kind: policy.EventIdentified, Replica: replica, Identity: identity}, nil)
	}

	query := policy.Query{Key: policy.Some(keys.NewHasher().HashString("user 1"))}
	draw := policy.NewSplitMix64(1)
	// While one is in flight there, another would be more than the mean.
	for range 3 {
		pick := p.Choose(0, &query, draw, nil).Pick
		fmt.Println(servers[pick.Ticket.Replica()], pick.Reason)
	}
	// Output:
	// 10.0.0.3:80 key_home
	// 10.0.0.1:80 key_set
	// 10.0.0.2:80 key_set
}
