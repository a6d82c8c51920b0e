// Package xdstest tests the policy slackwater under xDS, with go-control-plane as the control
// plane. It is a module of its own, so that users of the policy do not depend on a control plane.
package xdstest
