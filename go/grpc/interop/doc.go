// Package interop tests Slackwater for Go against other implementations. It has no API. It is a
// module of its own, so that users of the other modules do not depend on what these tests need.
//
//   - gRPC's interop cases, with its client and its test service, through the policy "slackwater".
//   - The Rust binary: Go clients probe slackwater agent, and slackwater serve probes Go servers.
//   - Connect's conformance suite through a proxy of net/http that balances with package httplb and
//     counts with package httpload.
//
// The binary is the one that SLACKWATER_BIN names, else target/release/slackwater or
// target/quick/slackwater in the repository. The conformance suite is built by the go command. A
// test is skipped if its binary is missing, and says so. With -short the conformance suite is left
// out. With SLACKWATER_INTEROP_BARE=1 it runs also without Slackwater, for comparison.
package interop
