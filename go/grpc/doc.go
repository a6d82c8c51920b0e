// Package slackwatergrpc balances the calls of a gRPC channel by what the servers report of their
// load. It is a load balancing policy of gRPC-Go with the name "slackwater". Importing the package
// registers it:
//
//	import _ "github.com/slackwater/slackwater/go/grpc"
//
// A channel uses it if its service config says so, or an xDS control plane by a TypedStruct whose
// type URL ends in "/slackwater":
//
//	grpc.NewClient("dns:///search.example:50051",
//		grpc.WithTransportCredentials(creds),
//		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"slackwater":{}}]}`))
//
// The channel connects to every endpoint that its resolver returns. It probes them for their
// requests in flight and their latency, off the path of the calls, and sends each call to the
// endpoint where it is expected to be answered first. Servers answer the probes with the
// sub-package load. An endpoint without the probe service is balanced by what this channel
// measures.
//
// The default policy also reads the load that these servers report in the trailers of calls, which
// its probes request. An endpoint that has just done so is not probed, so most probes go to
// endpoints without calls. Without trailers, as behind a proxy that removes them, there are more
// probes: up to three for each call.
//
// # Configuration
//
// All fields are optional:
//
//	{
//	  "policy": "shortest_expected_delay",
//	  "probe": {
//	    "transport": "grpc",
//	    "port": 9000,
//	    "path": "/prequal/probe",
//	    "key": "probes"
//	  },
//	  "prequal": {"probeRate": 3, "reportAgeMax": "1s"},
//	  "shortestExpectedDelay": {"latencyBand": 0.15},
//	  "key": {"metadata": "x-user", "balanceFactor": 2, "set": 4},
//	  "health": "standard",
//	  "explain": 64
//	}
//
// policy is one of "shortest_expected_delay" (the default), "prequal", "least_loaded" and "random".
// The policy "prequal_sync" waits for answers to its probes before it picks. A picker of gRPC may
// not wait, so this policy exists only in package httplb of the parent module.
//
// probe.transport is how probes are sent:
//   - "grpc", the default: a unary call on the endpoint's own connection, with the credentials of
//     the channel. The client's interceptors do not see it. Those of the server do, and must let
//     "/slackwater.probe.v1.Load/Probe" pass.
//   - "udp": one datagram each way. The endpoint's address must be an IP address, as it is after
//     resolution by DNS, and not a name.
//   - "http": a GET request without TLS. With "udp" and "http", one call of the probe service on
//     each connection requests reports in trailers.
//   - "none": no probes; every endpoint is balanced by what this channel measures.
//
// probe.port is where servers answer probes by UDP or HTTP: 1 to 65535, default the endpoint's
// port. [WithProbeAddress] lets a resolver choose another address for one endpoint. probe.path is
// the path of probes by HTTP, default "/prequal/probe". probe.key is the name under which
// [RegisterKey] has the key that signs probes by UDP or HTTP; by default they are not signed.
//
// prequal and shortestExpectedDelay have the settings of [policy.PrequalSettings] and
// [policy.ShortestExpectedDelaySettings]. Durations are texts such as "0.050s" or "50ms". The probe
// settings in prequal apply to every policy that probes.
//
// key lets calls about the same thing go to the same endpoints, for the sake of their caches, while
// these are not busy: see package [github.com/slackwater/slackwater/go/keys]. key.metadata is the
// name of the metadata whose first value is a call's key, as requestHashHeader is in the
// configuration of gRPC's ring_hash (A76). A call without it goes where the policy says, and not to
// a random endpoint as there. key.secret is the name under which [RegisterKeySecret] has the secret
// that keys are hashed with; by default there is none. The other fields are the Settings of package
// keys, without hintHomes. Clients that resolve the same addresses agree on a key's endpoints; the
// first address of an endpoint names it.
//
// health says what is done about endpoints that fail:
//   - "standard", the default: an endpoint that fails more often than the others gets fewer calls,
//     or none but for a few trials until it succeeds again; one that joins gets its whole share
//     once it has shown that it is as fast as the others, after 10 s at the latest. It begins once
//     a new channel has connected to its endpoints, or has failed to.
//   - "off": failures do not count. The fewest calls are in flight at an endpoint that fails fast,
//     so it gets more than its share of them, unless outlier detection ejects it.
//
// explain is the number of latest picks that [Channel.Picks] returns: 0 to 1024, default 0. Unless
// it is 0, each pick takes longer, and some 7 kB of memory are kept for each in each balancer. Its
// change begins the picks anew; a change of any other field begins anew all that was learned.
//
// Unknown fields are ignored. A field with a wrong value is an error that names its path.
//
// # Failures, retries and outlier detection
//
// A status that blames the server counts as failed: UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED,
// UNIMPLEMENTED, INTERNAL, UNAVAILABLE and DATA_LOSS. With "grpc-retry-pushback-ms" in the
// trailers, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE are pushback, which shows load
// and not a failure. Failed calls are no samples of latency, so a server that fails fast does not
// look fast.
//
// A stream that is reset before its head counts as failed, too, also with CANCELLED. One that the
// server has not begun, as it refuses the stream or leaves the connection, is pushback. gRPC tells
// a policy no status of a call that ends while its client still sends: without a head it counts as
// failed, with one as a success.
//
// A call that fails within the client shows nothing about an endpoint: one that the client's own
// credentials refuse, or whose message is larger than the client may send. Credentials that fail
// with UNAVAILABLE look like a connection that is lost, and a response that is larger than the
// client may receive like a server that is exhausted, so both count as failed.
//
// An endpoint that loses its connection gets no calls until it is READY again. It keeps the record
// of its health until the resolver no longer returns it, so that one that crashes with each call is
// ejected.
//
// gRPC's outlier detection and client-side health checking work above this policy. By default they
// are off, and outlier detection looks at its counts every 10 s; health, above, counts each call.
// gRPC's retries need [DialOptions] to avoid the endpoint of the failed attempt, since gRPC does
// not tell a policy which calls are retries.
//
// gRPC-Go implements no hedging. A [Hedger] sends late calls once more, if they are of the methods
// that its user names.
//
// # Seeing what it does
//
// The policy records metrics with gRPC's experimental metrics. They are off by default, and a stats
// handler such as that of OpenTelemetry enables each by its whole name. Each has the label
// grpc.target, and grpc.lb.locality if that is enabled as an optional label:
//   - grpc.lb.slackwater.picks counts picks, with the label grpc.lb.slackwater.reason: the rule
//     that decided.
//   - grpc.lb.slackwater.picks_unsent counts picks whose connection was lost before the call was
//     sent.
//   - grpc.lb.slackwater.probes_sent, grpc.lb.slackwater.probes_answered,
//     grpc.lb.slackwater.probes_lost and grpc.lb.slackwater.probes_unsent count probes, and how
//     they ended.
//   - grpc.lb.slackwater.probe_duration is the time from a probe to its answer, in seconds.
//   - grpc.lb.slackwater.endpoints is the number of endpoints with a READY connection.
//
// [Channels] returns the live channels with a [Snapshot] of each.
//
// # Versions
//
// This module and its parent, github.com/slackwater/slackwater/go, are released together, and this
// one uses internal packages of the parent. Upgrade both to the same version.
package slackwatergrpc
