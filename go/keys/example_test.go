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
	p, err := keys.Wrap(inner, keys.DefaultSettings())
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
	// While one is in flight there, the server has more than its share of two.
	for range 3 {
		pick := p.Choose(0, &query, draw, nil).Pick
		fmt.Println(servers[pick.Ticket.Replica()], pick.Reason)
	}
	// Output:
	// 10.0.0.3:80 key_home
	// 10.0.0.1:80 key_set
	// 10.0.0.3:80 key_home
}
