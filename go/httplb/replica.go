package httplb

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/slackwater/slackwater/go/keys"
	"github.com/slackwater/slackwater/go/policy"
)

// Replica is a server of the service.
type Replica struct {
	// URL is the scheme and the host of requests, such as "http://10.0.0.7:8000". It identifies the
	// replica: two replicas must not have the same.
	URL string
	// Probe is where the replica answers probes: for probes over UDP an address such as
	// "10.0.0.7:8001", and over HTTP a URL. Default: the address of URL for UDP, which must then be an
	// IP address; the URL with the path of [WithHTTPProbes] for HTTP. Without probes it is ignored.
	Probe string
}

// URLs returns replicas that answer probes where they take requests.
func URLs(urls ...string) []Replica {
	replicas := make([]Replica, len(urls))
	for i, url := range urls {
		replicas[i].URL = url
	}
	return replicas
}

// replica is a known replica. Its fields do not change.
type replica struct {
	id     policy.ReplicaID
	given  Replica
	scheme string
	host   string
	// identity is by what keys know it.
	identity policy.Identity
	// probeAddr or probeURL is where it is probed, by the kind of probes.
	probeAddr netip.AddrPort
	probeURL  string
}

// parseReplica checks a replica's addresses. It has no name yet.
func parseReplica(given Replica, kind probeKind, path string) (*replica, error) {
	fail := func(format string, values ...any) (*replica, error) {
		return nil, fmt.Errorf("replica %q: %w", given.URL, fmt.Errorf(format, values...))
	}
	parsed, err := url.Parse(given.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("replica %q: %w", given.URL, errors.Unwrap(err))
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return fail("the scheme must be http or https")
	case parsed.Hostname() == "":
		return fail("there is no host")
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" || len(parsed.Path) > 1:
		return fail("only a scheme and a host are allowed")
	}
	r := &replica{given: given, scheme: parsed.Scheme, host: parsed.Host}
	r.identity = keys.IdentityOf(addressOf(parsed), 0)
	switch {
	case kind == probesNone:
	case kind == probesHTTP && given.Probe == "":
		r.probeURL = parsed.Scheme + "://" + parsed.Host + path
	case kind == probesHTTP:
		probed, err := url.Parse(given.Probe)
		if err != nil || probed.Host == "" || probed.Scheme != "http" && probed.Scheme != "https" {
			return fail("%q is not a URL for probes over HTTP", given.Probe)
		}
		r.probeURL = given.Probe
	case given.Probe == "":
		addr, err := netip.ParseAddr(parsed.Hostname())
		if err != nil {
			return fail("probes over UDP need an IP address: set Probe, or use WithHTTPProbes or WithoutProbes")
		}
		port, err := portOf(parsed)
		if err != nil {
			return fail("%w", err)
		}
		r.probeAddr = netip.AddrPortFrom(addr, port)
	default:
		if r.probeAddr, err = netip.ParseAddrPort(given.Probe); err != nil {
			return fail("%q is not an IP address and a port for probes over UDP", given.Probe)
		}
	}
	return r, nil
}

func portOf(u *url.URL) (uint16, error) {
	switch {
	case u.Port() != "":
		port, err := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(port), err
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}
