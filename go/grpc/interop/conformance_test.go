package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// helperVariable has the role of this test binary if the conformance suite starts it: what is under
// test, how requests are carried, and the reference implementation, separated by commas.
const helperVariable = "SLACKWATER_INTEROP_HELPER"

const (
	serverRole = "server"
	clientRole = "client"
)

// bareVariable, if it is set, makes the suite run also through the proxy without Slackwater, for
// comparison. That takes half a minute more.
const bareVariable = "SLACKWATER_INTEROP_BARE"

// conformanceModule has the suite's commands.
const conformanceModule = "connectrpc.com/conformance/cmd/"

// conformanceMax bounds one run of the suite.
const conformanceMax = 3 * time.Minute

// knownFailing are patterns of cases that fail in the role, for the reason that stands with each.
// They must fail, and they do so without Slackwater, too.
var knownFailing = map[string][]string{
	clientRole: {
		// The server sends one status in the head and another one as a trailer. ReverseProxy adds
		// announced trailers to what the head had under the same names, so the trailer that it sends
		// has both, and the client takes the first.
		"gRPC Unexpected Responses/**/trailers-only/ignore-header-if-trailer-present",
	},
}

// knownFlaky are patterns of cases that may fail in both roles: they measure deadlines of 200 ms,
// which pass on a busy machine.
var knownFlaky = []string{"Timeouts/**"}

// runHelper does what the suite started this binary for.
func runHelper(role string) error {
	parts := strings.Split(role, ",")
	if len(parts) != 3 {
		return fmt.Errorf("%s must have three parts; got %q", helperVariable, role)
	}
	under, how, reference := parts[0], carrier(parts[1]), parts[2]
	switch under {
	case serverRole:
		return runServerUnderTest(how, reference, os.Stdin, os.Stdout)
	case clientRole:
		return runClientUnderTest(how, reference, os.Stdin, os.Stdout)
	}
	return fmt.Errorf("%s: unknown role %q", helperVariable, under)
}

// TestConformance runs Connect's conformance suite with a proxy in the way: behind the reference
// client, and before the reference server.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: the conformance suite takes some seconds, and -short is set")
	}
	folder := buildConformance(t)
	carriers := []carrier{balanced}
	if os.Getenv(bareVariable) != "" {
		carriers = append(carriers, bare)
	}
	for _, under := range []string{serverRole, clientRole} {
		for _, how := range carriers {
			t.Run(under+"/"+string(how), func(t *testing.T) {
				runConformance(t, folder, under, how)
			})
		}
	}
}

func runConformance(t *testing.T, folder, under string, how carrier) {
	ctx, cancel := context.WithTimeout(t.Context(), conformanceMax)
	defer cancel()
	arguments := []string{"--conf", "testdata/conformance.yaml", "--mode", under}
	for _, pattern := range knownFailing[under] {
		arguments = append(arguments, "--known-failing", pattern)
	}
	for _, pattern := range knownFlaky {
		arguments = append(arguments, "--known-flaky", pattern)
	}
	arguments = append(arguments, "--", os.Args[0])
	command := exec.CommandContext(ctx, filepath.Join(folder, "connectconformance"), arguments...)
	role := strings.Join([]string{under, string(how), filepath.Join(folder, "reference"+under)}, ",")
	command.Env = append(os.Environ(), helperVariable+"="+role)
	// A server that outlives the suite must not hold up the test by its standard error.
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	passed, total := countsOf(output)
	t.Logf("%d of %d cases passed", passed, total)
	if err != nil {
		t.Fatalf("connectconformance: %v\n%s", err, lastBytes(output, 16<<10))
	}
	if bytes.Contains(output, []byte(proxyFailure)) {
		t.Errorf("a proxy failed:\n%s", linesWith(output, proxyFailure))
	}
	if how == balanced {
		summaries := linesWith(output, proxySummary)
		if summaries == "" {
			t.Error("no proxy balanced anything")
		}
		t.Log("\n" + summaries)
	}
	// The configuration selects this many at least, so a mistake there does not pass as success.
	if total < 1500 {
		t.Errorf("the suite ran %d cases; want at least 1500", total)
	}
}

var countPatterns = map[string]*regexp.Regexp{
	"total":  regexp.MustCompile(`Total cases: (\d+)`),
	"passed": regexp.MustCompile(`(\d+) passed`),
}

// countsOf reads the numbers at the end of the suite's output; 0 if they are not there.
func countsOf(output []byte) (passed, total int) {
	count := func(name string) int {
		found := countPatterns[name].FindSubmatch(output)
		if found == nil {
			return 0
		}
		n, _ := strconv.Atoi(string(found[1]))
		return n
	}
	return count("passed"), count("total")
}

// linesWith returns the lines of the output in which a text stands.
func linesWith(output []byte, text string) string {
	var found strings.Builder
	for line := range bytes.Lines(output) {
		if bytes.Contains(line, []byte(text)) {
			found.Write(line)
		}
	}
	return found.String()
}

func lastBytes(text []byte, most int) []byte {
	if len(text) > most {
		return text[len(text)-most:]
	}
	return text
}

// buildConformance builds the suite's commands, which the go command keeps in its cache, and
// returns their folder.
func buildConformance(t *testing.T) string {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skipf("skipped: the conformance suite is built by the go command, which is missing: %v", err)
	}
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), goCommand, "build", "-o", folder+string(filepath.Separator),
		conformanceModule+"connectconformance", conformanceModule+"referenceserver",
		conformanceModule+"referenceclient")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		t.Fatalf("the conformance suite cannot be built: %v\n%s", err, &output)
	}
	return folder
}
