package xdstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/slackwater/slackwater/go/internal/await"
	"github.com/slackwater/slackwater/go/internal/process"
)

// proxy is a running slackwater serve whose fleet is that of a control plane.
type proxy struct {
	*process.Process
	admin string
}

// startServe runs the Rust binary with a fleet of the control plane in a section [xds], or skips
// the test. The fleet is named by the key xds or xds_cluster of its discovery.
func startServe(t *testing.T, key, name, section string) *proxy {
	t.Helper()
	binary := os.Getenv("SLACKWATER_BIN")
	if binary == "" {
		t.Skip("skipped: no binary of slackwater: set SLACKWATER_BIN")
	}
	file := filepath.Join(t.TempDir(), "slackwater.toml")
	config := fmt.Sprintf(`listen = %q
workers = 1
discovery.%s = %q
replica.protocol = "h2c"
admin.listen = %q

[probe]
transport = "none"

[xds]
%s
`, process.AnyPort, key, name, process.AnyPort, section)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := process.Start(t, binary, "serve", "--config", file)
	return &proxy{serve, serve.Admin(t)}
}

// discovery is the state of the fleet's source in serve's status.
type discovery struct {
	Failure *string `json:"failure"`
	XDS     struct {
		Connected bool    `json:"connected"`
		Version   string  `json:"version"`
		Accepted  int     `json:"accepted"`
		Rejected  int     `json:"rejected"`
		Rejection *string `json:"rejection"`
	} `json:"xds"`
}

// status returns the source's state, and the replicas as port, tier and weight.
func (p *proxy) status(t *testing.T) (discovery, []string) {
	t.Helper()
	var status struct {
		Services []struct {
			Discovery discovery `json:"discovery"`
		} `json:"services"`
		Replicas []struct {
			Address string `json:"address"`
			Probes  string `json:"probe_address"`
			Tier    int    `json:"tier"`
			Weight  int    `json:"weight"`
		} `json:"replicas"`
	}
	readJSON(t, p.admin, "/status", &status)
	if len(status.Services) == 0 {
		return discovery{}, nil
	}
	var replicas []string
	for _, r := range status.Replicas {
		_, port, _ := net.SplitHostPort(r.Address)
		replicas = append(replicas, fmt.Sprintf("%s t%d w%d", port, r.Tier, r.Weight))
	}
	slices.Sort(replicas)
	return status.Services[0].Discovery, replicas
}

// readJSON decodes a page of an admin server, which may not serve yet: then it changes nothing.
func readJSON(t *testing.T, admin, path string, into any) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + admin + path)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// reaches waits until the fleet is as expected, with a failure that contains some text, or without
// one if the text is empty.
func (p *proxy) reaches(t *testing.T, failure string, replicas ...string) discovery {
	t.Helper()
	var state discovery
	var found []string
	defer func() {
		if t.Failed() {
			t.Logf("replicas %q, failure %v", found, text(state.Failure))
		}
	}()
	await.Until(t, fmt.Sprintf("the replicas %q with the failure %q", replicas, failure), func() bool {
		state, found = p.status(t)
		hasFailed := state.Failure != nil && strings.Contains(*state.Failure, failure)
		return slices.Equal(found, replicas) && (failure == "" && state.Failure == nil || failure != "" && hasFailed)
	})
	return state
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func wants(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func isNACK(request string) bool { return strings.HasPrefix(request, "NACK") }

const badPort = "web: endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value is 0, expected 1 to 65535"

// One life of a fleet, in both variants of the protocol: what the control plane sends, what serve
// answers, and which fleet it has.
func TestServeFollowsEndpoints(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) { runLife(t, delta) })
	}
}

func runLife(t *testing.T, delta bool) {
	const (
		healthy   = corev3.HealthStatus_HEALTHY
		unhealthy = corev3.HealthStatus_UNHEALTHY
		degraded  = corev3.HealthStatus_DEGRADED
	)
	// An incremental ACK has no version.
	ack := func(version string) string {
		if delta {
			return "ACK "
		}
		return "ACK " + version + " web"
	}
	nack := func(why string) string {
		if delta {
			return "NACK " + why
		}
		return "NACK " + why + " web"
	}
	c := startControl(t, nil, "")
	c.set(t, "1", map[string][]place{"web": {{port: 7001}, {port: 7002, weight: 3}}, "other": {{port: 1}}})
	p := startServe(t, "xds", "web", fmt.Sprintf("server = \"http://%s\"\ndelta = %v\nnode.id = %q\nnode.zone = \"a\"", c.address, delta, node))
	p.reaches(t, "", "7001 t0 w1", "7002 t0 w3")
	wants(t, c.taken(t, ack("1")), "first web from client/a", ack("1"))

	// A bad resource is rejected with its field, and changes nothing. In the state of the world,
	// go-control-plane sends it again at once, for as long as it is rejected.
	begun := time.Now()
	c.set(t, "2", map[string][]place{"web": {{port: 0}}})
	state := p.reaches(t, "resource rejected: endpoints[0]", "7001 t0 w1", "7002 t0 w3")
	wants(t, slices.Compact(c.taken(t, "NACK")), nack(badPort))
	if state.XDS.Rejected < 1 || text(state.XDS.Rejection) != badPort {
		t.Errorf("%d rejected, %s", state.XDS.Rejected, text(state.XDS.Rejection))
	}
	// The first NACK is sent at once, the second one after a second, and each later one waits twice
	// as long as the one before, up to 10 seconds. The last one may not be sent yet.
	var waited time.Duration
	for wait, sent := time.Second, 2; sent < state.XDS.Rejected; sent++ {
		waited += wait
		wait = min(2*wait, 10*time.Second)
	}
	if took := time.Since(begun); took < waited {
		t.Errorf("%d rejected within %v", state.XDS.Rejected, took)
	}

	// Health, priority and probe port.
	c.set(t, "3", map[string][]place{"web": {
		{port: 7001, health: healthy}, {port: 7002, health: unhealthy},
		{port: 7003, health: degraded}, {port: 7004, priority: 1, probes: 9000},
	}})
	last := []string{"7001 t0 w1", "7003 t1 w1", "7004 t1 w1"}
	p.reaches(t, "", last...)
	wants(t, slices.DeleteFunc(c.taken(t, ack("3")), isNACK), ack("3"))

	// No endpoint is healthy: the last good list stays.
	c.set(t, "4", map[string][]place{"web": {{port: 7001, health: unhealthy}}})
	p.reaches(t, "the list is empty", last...)
	wants(t, c.taken(t, ack("4")), ack("4"))

	// A lost stream changes nothing, and the next one begins with what is known.
	c.drop()
	if delta {
		wants(t, c.taken(t, "first"), "first web knows web from client/a")
	} else {
		wants(t, c.taken(t, ack("4")), "first with 4 web from client/a", ack("4"))
	}
	if state, replicas := p.status(t); !slices.Equal(replicas, last) {
		t.Errorf("replicas %q, failure %s", replicas, text(state.Failure))
	}

	// A control plane that is away changes nothing; when it is back, it is followed.
	c.end()
	p.reaches(t, "the control plane cannot be reached", last...)
	c.set(t, "5", map[string][]place{"web": {{port: 7005}}})
	c.start(t)
	p.reaches(t, "", "7005 t0 w1")
	c.taken(t, ack("5"))

	// A resource that is gone leaves the fleet as it was.
	c.set(t, "6", nil)
	if delta {
		p.reaches(t, "the control plane has removed the resource", "7005 t0 w1")
		wants(t, c.taken(t, ack("6")), ack("6"))
	}
	c.set(t, "7", map[string][]place{"web": {{port: 7007}}})
	p.reaches(t, "", "7007 t0 w1")
	c.taken(t, ack("7"))

	// A response with a strange nonce is answered with that nonce.
	c.answerWith("strange")
	c.set(t, "8", map[string][]place{"web": {{port: 7008}}})
	p.reaches(t, "", "7008 t0 w1")
	c.taken(t, ack("8"))
	c.drop()
	c.set(t, "9", map[string][]place{"web": {{port: 7009}}})
	p.reaches(t, "", "7009 t0 w1")
	// The stream before may have brought it, too, in its last moment.
	await.Until(t, "there is a stream, and the last version", func() bool {
		state, _ = p.status(t)
		return state.XDS.Connected && (delta || state.XDS.Version == "9")
	})
}

// A control plane with TLS is verified, gets the client's certificate, and the token of a file.
func TestServeProvesWhoItIs(t *testing.T) {
	folder := t.TempDir()
	authority := newAuthority(t, folder)
	pair := authority.issue(t, folder, "plane")
	authority.issue(t, folder, "proxy")
	token := filepath.Join(folder, "headers")
	if err := os.WriteFile(token, []byte("authorization: Bearer s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startControl(t, &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: authority.pool(),
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}, "Bearer s3cret")
	c.set(t, "1", map[string][]place{"web": {{port: 7001}}})
	trusted := fmt.Sprintf("server = \"https://%s\"\nnode.id = %q\nca = %q\n", c.address, node, filepath.Join(folder, "ca.pem"))
	identity := fmt.Sprintf("certificate = %q\nkey = %q\n", filepath.Join(folder, "proxy.pem"), filepath.Join(folder, "proxy.key"))
	headers := fmt.Sprintf("headers_file = %q\n", token)
	for _, test := range []struct {
		name, section, failure string
		replicas               []string
	}{
		{"all", trusted + identity + headers, "", []string{"7001 t0 w1"}},
		{"no token", trusted + identity, "grpc-status 16: no token", nil},
		{"no certificate", trusted + headers, "the control plane cannot be reached", nil},
		{"no TLS", fmt.Sprintf("server = \"http://%s\"\n", c.address), "the control plane", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			startServe(t, "xds", "web", test.section).reaches(t, test.failure, test.replicas...)
		})
	}
}

// authority issues certificates for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, folder string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, filepath.Join(folder, "ca.pem"), "CERTIFICATE", der)
	return &authority{certificate, key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue writes name.pem and name.key, for a server and a client at 127.0.0.1.
func (a *authority) issue(t *testing.T, folder, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := [2]string{filepath.Join(folder, name+".pem"), filepath.Join(folder, name+".key")}
	writePEM(t, files[0], "CERTIFICATE", der)
	writePEM(t, files[1], "PRIVATE KEY", secret)
	pair, err := tls.LoadX509KeyPair(files[0], files[1])
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
