// Package vectors replays the test vectors of vectors/policy: seeded scenarios with each input of a
// policy and each result. The Rust core writes them and is compared with them, so that no
// implementation drifts from it. Their format is in vectors/policy/README.md.
package vectors
