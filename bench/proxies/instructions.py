#!/usr/bin/env python3
"""Counts the instructions of a request through nginx, HAProxy and Slackwater, by feature. See README.md."""
import argparse, json, os, re, shutil, statistics, sys, time
from typing import NamedTuple
import bench, callgrind
from bench import log, rd
from client import Client, FIELDS, GRPC_BODY, Http1, Http2, PATIENCE_S
from seeing import provenance, table

ROOT = bench.ROOT
PROXIES = {"nginx": "nginx", "haproxy": "HAProxy", "slackwater": "Slackwater"}
# The pause before a request leaves time for the answers to its predecessor's probes, on a busy machine, too.
PAUSE_S, WINDOW_S, IDLE_S = 0.0015, 1, 1.5
# A row may cost this much more than published; the shipped default, whose admin server works by the clock, twice as much.
LIMIT = 0.02
NO_PROBES, NO_JSON, NO_AGENT = "it has no probes", "it has no such format", "it has no agent"
TO_FILE = '[access_log]\nto = "${WORK}/access.log"\n'


class Row(NamedTuple):
    """Settings of each proxy are `vars` of its templates. A text in their place is the reason why it has no count."""
    what: str
    client: str = "http1"
    path: str = "/"
    nginx: dict | str = {}
    haproxy: dict | str = {}
    slackwater: dict | str = {}
    # Slackwater's entry in peers.json.
    entry: str = "slackwater"
    # Part of what CI checks.
    checked: bool = False
    limit: float = LIMIT


ROWS = {
    "default": Row("as Slackwater ships: `shortest_expected_delay`, a UDP probe a request, admin server", nginx=NO_PROBES, haproxy=NO_PROBES, entry="slackwater-default", checked=True,
                   limit=2 * LIMIT),
    "get": Row("HTTP/1.1, 2 bytes, round robin", checked=True),
    "policy": Row("the default policy alone: `shortest_expected_delay`, a UDP probe a request", nginx=NO_PROBES, haproxy=NO_PROBES,
                  slackwater={"POLICY": "shortest_expected_delay", "PROBE": "udp"}),
    "prequal": Row("Prequal, 3 UDP probes a request", nginx=NO_PROBES, haproxy=NO_PROBES, entry="slackwater-prequal"),
    "least": Row("`least_loaded`, `least_conn`, `leastconn`", nginx={"NGINX_BALANCE": "least_conn;"}, haproxy={"HAPROXY_BALANCE": "leastconn"},
                 slackwater={"POLICY": "least_loaded"}),
    "log": Row("access log, text: nginx's `combined`, HAProxy's `httplog`", nginx={"NGINX_LOG": "${WORK}/access.log combined"},
               haproxy={"HAPROXY_LOG": "log stdout format raw local0\n    option httplog"}, slackwater={"SEEING": TO_FILE}, checked=True),
    "json": Row("access log, JSON", nginx=NO_JSON, haproxy=NO_JSON, slackwater={"SEEING": f'{TO_FILE}format = "json"\n'}),
    "tls": Row("TLS 1.3, kept connections", "tls", haproxy={"HAPROXY_TLS": "bind 127.0.0.1:${TLS_PORT} ssl crt ${CERTIFICATE}"}, checked=True),
    "h2": Row("h2c, to HTTP/1.1", "h2", checked=True),
    "grpc": Row("h2c to h2c: POST of 10 bytes, a trailer", "grpc", checked=True),
    "1k": Row("1 KiB", path="/1k"),
    "64k": Row("64 KiB", path="/64k", checked=True),
    "agent": Row("`slackwater agent` before one server", nginx=NO_AGENT, haproxy=NO_AGENT, entry="slackwater-agent"),
}


def peer(proxy, row, more):
    """A proxy with a row's settings, and `more` for Slackwater; or the reason why there is none."""
    settings, definitions = getattr(row, proxy), bench.definitions()
    if isinstance(settings, str):
        return settings
    for name in {"nginx": ["nginx", "nginx-deb"], "haproxy": ["haproxy"], "slackwater": [row.entry]}[proxy]:
        d = definitions[name]
        d["vars"] = {**d.get("vars", {}), **settings, **(more if proxy == "slackwater" else {})}
        if proxy == "nginx":
            # callgrind_control does not reach forked processes.
            d["cmd"] += " -g 'master_process off;'"
        p = bench.Peer(name, d, os.path.exists(f"{bench.TOOLS}/h2backend"))
        if not p.bin:
            return "not installed"
        if name != "nginx" or [int(it) for it in re.findall(r"\d+", p.version())[:2]] >= [1, 25]:
            break
    return "h2backend is not built" if row.client == "grpc" and "grpc" not in p.caps else p


def client(p, row, fields):
    fields = {**FIELDS, **fields}
    if row.client == "grpc":
        return Client(Http2, bench.GRPC_PORT, "/bench.Echo/Say", {**fields, "content-type": "application/grpc", "te": "trailers"}, GRPC_BODY)
    if row.client == "h2":
        return Client(Http2, p.h2_port, row.path, fields)
    return Client(Http1, bench.TLS_PORT if row.client == "tls" else bench.PORT, row.path, fields, row.client == "tls")


def timed(p, began, work):
    """Seconds of some work, and the proxy's instructions and calls meanwhile. Counts are taken at whole windows since `began`, so
    that each has the same number of the ticks that come every second."""
    first = (time.monotonic() - began) // WINDOW_S
    work()
    last = (time.monotonic() - began) // WINDOW_S + 1
    time.sleep(max(0, began + last * WINDOW_S - time.monotonic()))
    return (last - first) * WINDOW_S, *callgrind.by_function(callgrind.dump(p))


def count(p, row, args):
    """Counts of a proxy: samples of a request's instructions and allocations without the idle work of the same time, instructions
    of an idle second, and those of a request by function."""
    try:
        p.start(callgrind.under(p), PATIENCE_S)
        load = client(p, row, args.field)
        load.send(args.requests, pause_s=PAUSE_S)
        began = time.monotonic()
        callgrind.dump(p)
        took, own, calls = timed(p, began, lambda: time.sleep(IDLE_S))
        idle, idle_calls, samples, allocated = sum(own.values()) / took, callgrind.allocations(calls) / took, [], []
        for _ in range(args.samples):
            took, own, calls = timed(p, began, lambda: load.send(args.requests, pause_s=PAUSE_S))
            samples.append(round((sum(own.values()) - idle * took) / args.requests, 1))
            allocated.append(round((callgrind.allocations(calls) - idle_calls * took) / args.requests, 2))
        # Without them the proxy has nothing to drain.
        load.close()
        return {"instructions": samples, "allocations": allocated, "each_second": round(idle),
                "functions": {name: count / args.requests for name, count in own.most_common(args.functions)}}
    finally:
        p.stop()


def measure(args):
    """({proxy: version}, {row: {proxy: its counts, or {"why": the reason why there are none}}})"""
    bench.prepare()
    backends, versions, found = [bench.start_backend()], {}, {}
    try:
        if os.path.exists(f"{bench.TOOLS}/h2backend"):
            backends.append(bench.start_grpc_backend())
        for name in args.rows:
            found[name] = {}
            for proxy in args.proxies:
                p = peer(proxy, ROWS[name], args.set)
                try:
                    if isinstance(p, bench.Peer):
                        versions[proxy] = p.version()
                        found[name][proxy] = count(p, ROWS[name], args)
                    else:
                        found[name][proxy] = {"why": p}
                except Exception as error:
                    if proxy == "slackwater":
                        raise
                    found[name][proxy] = {"why": f"failed: {str(error)[-200:]}"}
                told = found[name][proxy]
                log(f"{name} {proxy}: {told.get('why') or told['instructions']}")
                for function, each in told.pop("functions", {}).items():
                    print(f"{each:8.0f} {function}")
        return versions, found
    finally:
        for backend in backends:
            bench.stop(backend)
        shutil.rmtree(bench.SHARED, ignore_errors=True)


def middle(row, proxy, what="instructions"):
    counts = row.get(proxy, {})
    return statistics.median(counts[what]) if what in counts else None


def rows_table(rows):
    proxies = [proxy for proxy in PROXIES if any(proxy in row for row in rows.values())]
    others = [proxy for proxy in proxies if proxy != "slackwater"]
    lines = []
    for name in filter(rows.get, ROWS):
        row = rows[name]
        own, cells = middle(row, "slackwater"), [ROWS[name].what]
        cells += [f"{middle(row, proxy):,.0f}" if middle(row, proxy) else "–" for proxy in proxies]
        cells += [f"{own / middle(row, proxy):.2f}" if own and middle(row, proxy) else "–" for proxy in others]
        cells += [f"{middle(row, 'slackwater', 'allocations'):.1f}", f"{row['slackwater']['each_second']:,}"] if own else ["–", "–"]
        lines.append(cells)
    heads = ["instructions of a request", *(PROXIES[it] for it in proxies), *(f"Slackwater's of {PROXIES[it]}'s" for it in others),
             "allocations", "of an idle second"]
    return "\n".join(table(heads, lines))


def blanks(rows):
    """A line for each count that is missing, with the reason."""
    reasons = {}
    for name, row in rows.items():
        for proxy, counts in row.items():
            if "why" in counts:
                reasons.setdefault((proxy, counts["why"]), []).append(name)
    return [f"- {PROXIES[proxy]} has no count for {', '.join(names)}: {why}." for (proxy, why), names in reasons.items()]


def widest(rows):
    """The largest distance of a sample from its median, in per cent."""
    return max(100 * abs(it / middle(row, proxy) - 1) for row in rows.values() for proxy in row if middle(row, proxy)
               for it in row[proxy]["instructions"])


# In the order of the page: the program of a release, and those that cargo builds.
PROFILES = ["trained", "release", "quick"]

PAGE = """# What a request costs in instructions, beside other proxies

User-space instructions of a request under callgrind, by `bench/proxies/instructions.py`. Another run, also on a busy machine, differs
by less than 1 %, or 2 % in the row of Slackwater as it ships. The kernel's work is not in them. Each proxy has one worker and four
servers (two for gRPC), keeps connections on both sides, and adds `X-Forwarded-For`. There is no access log, no health check, no probe
and no admin server, and the policy is round robin, unless the row says otherwise. nginx runs without its master process.

The client has 16 connections and sends one request at a time, {pause} ms after the last response. So each request is a turn of the
event loop of its own, and HTTP/2 has one stream at a time. Where 16 requests come at once, each takes 4 to 7 % less in all three
proxies. At this pace each request triggers all probes that the policy asks for; under load the least interval between two probes
bounds them. Slackwater as it ships also records up to 100 requests a second in case they fail, which at this pace are four of five.
The idle work of the same time is subtracted; *an idle second* is that work. *Allocations* are calls that ask Slackwater's
allocator for memory.

The profile `trained` is the program of a release: static, and compiled by the counts of a training. `release` and `quick` are what
cargo builds. CI compares Slackwater's rows of the profile `quick` with these, and fails beyond {limit:.0f} %, or {double:.0f} % in the row of
Slackwater as it ships.
"""


def page(data):
    out = [PAGE.format(pause=1000 * PAUSE_S, limit=100 * LIMIT, double=200 * LIMIT)]
    for profile in sorted(data, key=PROFILES.index):
        one = data[profile]
        facts = [f"- {key.capitalize()}: {one[key]}" for key in ("command", "commit", "build", "date", "machine")]
        facts += [f"- {PROXIES[proxy]}: {version}" for proxy, version in one["versions"].items()]
        facts += [f"- Medians of {one['args']['samples']} samples of {one['args']['requests']} requests. The sample farthest from its median: {widest(one['rows']):.2f} %."]
        out += [f"## Profile {profile}", "", *facts, *blanks(one["rows"]), "", rows_table(one["rows"])]
    return "\n".join(out).rstrip() + "\n"


def check(rows, published, profile, machine):
    """Compares Slackwater's rows with the published ones, and returns whether one costs too much more."""
    failed = False
    for name, row in rows.items():
        new, old = middle(row, "slackwater"), middle(published["rows"].get(name, {}), "slackwater")
        if new is None or old is None:
            print(f"{name}: FAILED: {'it is not published' if new else row['slackwater']['why']}; profile {profile}")
            failed = True
            continue
        change, limit = new / old - 1, ROWS[name].limit
        failed |= change > limit
        verdict = "FAILED: a request costs more" if change > limit else "the published table is old: run with --write" if change < -limit else "ok"
        print(f"{name}: {old:,.0f} published, {new:,.0f} now, {100 * change:+.2f} %: {verdict}")
    if failed:
        print(f"The limit is {100 * LIMIT:.0f} %, and of the default {200 * LIMIT:.0f} %. Published: commit {published['commit']}, {published['machine']}. --row NAME --functions 40 shows where; --write publishes.")
    here, there = (it.split(",")[0] for it in (machine, published["machine"]))
    if failed and here != there:
        print(f"NOT judged: this processor is {here}, and libraries may choose other instructions on it than on {there}.")
        return False
    return failed


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", action="append", default=[], choices=ROWS, help="only this one")
    parser.add_argument("--proxy", action="append", default=[], choices=PROXIES, help="only this one")
    parser.add_argument("--requests", type=int, default=600, help="of a sample; as many come before")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--functions", type=int, default=0, help="shows this many, with the instructions of each")
    parser.add_argument("--field", action="append", default=[], metavar="NAME: VALUE", help="of the requests' heads, in addition")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of Slackwater's template in conf/")
    parser.add_argument("--write", action="store_true", help="publishes the rows in results/instructions.md and .json")
    parser.add_argument("--check", action="store_true", help="compares Slackwater's rows with the published ones, and fails if one costs 2 per cent more")
    args = parser.parse_args()
    args.rows = args.row or [name for name, row in ROWS.items() if row.checked or not args.check]
    args.proxies = args.proxy or (["slackwater"] if args.check else list(PROXIES))
    args.field = dict(re.split(": *", it, maxsplit=1) for it in args.field)
    args.field = {name.lower(): value for name, value in args.field.items()}
    args.set = dict(it.split("=", 1) for it in args.set)
    return args


def main():
    args = arguments()
    about = provenance(args, "instructions.py", ("requests", "samples"))
    # Counts need no cores of their own.
    bench.PROXY_CPU = bench.LOAD_CPU = ",".join(map(str, os.sched_getaffinity(0)))
    profile = about["build"].split()[-1]
    if args.write and profile not in PROFILES:
        sys.exit(f"the folder of the binary is named {profile}; to publish, it has to be one of {', '.join(PROFILES)}")
    path = os.path.join(ROOT, "results/instructions")
    data = json.loads(rd(f"{path}.json")) if os.path.exists(f"{path}.json") else {}
    if args.check and profile not in data:
        sys.exit(f"{path}.json has no rows of the profile {profile}")
    versions, rows = measure(args)
    print(rows_table(rows), *blanks(rows), sep="\n")
    if args.write:
        kept = data.get(profile, {"rows": {}, "versions": {}})
        data[profile] = {**about, "versions": {**kept["versions"], **versions},
                         "rows": {name: {**kept["rows"].get(name, {}), **rows.get(name, {})} for name in ROWS if name in rows or name in kept["rows"]}}
        with open(f"{path}.json", "w") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
        with open(f"{path}.md", "w") as file:
            file.write(page(data))
    if args.check and check(rows, data[profile], profile, about["machine"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
