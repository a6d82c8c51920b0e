package grpcstatus

import "testing"

func TestStatuses(t *testing.T) {
	const caller, server, load = "caller", "server", "load"
	for code, want := range []string{
		caller, caller, server, caller, load, caller, caller, caller, load, caller, caller, caller,
		server, server, load, server, caller, caller,
	} {
		c := Code(code)
		if c.BlamesServer() != (want != caller) || c.MayPushBack() != (want == load) {
			t.Errorf("status %d is not about the %s", code, want)
		}
	}
}

func TestParse(t *testing.T) {
	for value, want := range map[string]Code{"0": 0, "14": unavailable, "4294967295": 1<<32 - 1} {
		if got, ok := Parse(value); !ok || got != want {
			t.Errorf("%q is %d, %v", value, got, ok)
		}
	}
	for _, value := range []string{"", "-1", "+1", " 1", "1 ", "x", "4294967296"} {
		if got, ok := Parse(value); ok {
			t.Errorf("%q is %d", value, got)
		}
	}
}
