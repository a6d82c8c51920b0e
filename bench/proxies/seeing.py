#!/usr/bin/env python3
"""Counts and measures the cost of observability in `slackwater serve`: metrics, access log, decisions, traces. See README.md."""
import argparse, collections, http.client, json, math, os, re, shutil, signal, statistics, subprocess, sys, tempfile, time
import bench, callgrind
from bench import log, rd
from callgrind import instructions
from client import Client, Http1, PATIENCE_S
from page import paired, samples

ROOT = bench.ROOT
# The levels of observability, by the entries of peers.json, with their names on the page.
LEVELS = {
    "off": "everything off",
    "metrics": "metrics only",
    "decisions": "decisions, 1 %",
    "traces": "traces, 1 %",
    "both": "both, 1 %",
    "log": "access log only",
    "all": "everything",
}
# Further levels, each compared with the level that differs only in that: the cost of a request that
# is recorded, or might be.
DECISIONS, TRACES = '[decisions]\n{}\n', '[tracing]\nendpoint = "http://127.0.0.1:${{OTLP_PORT}}"\nsample = {}\n'
MORE = {
    "decisions-all": ("decisions", "a decision is kept", DECISIONS.format("sample = 1")),
    "decisions-failed": ("decisions", "`decisions.failed = true`, and it does not fail", DECISIONS.format("sample = 0\nfailed = true")),
    "traces-all": ("traces", "it is traced", TRACES.format(1)),
}
POLICIES = {"": "round robin", "-prequal": "Prequal"}
IDLE_S, MANY, WORKER = 4, 1000, "worker-0"


def entry(level, policy):
    """A level for counting: no client polls the admin server, and all work is caused by requests."""
    like, _, seeing = MORE.get(level, (level, "", None))
    d = dict(DEFINITIONS[f"seen-{like}{policy}"])
    if seeing:
        d["vars"] = {**d["vars"], "SEEING": seeing}
    if policy:
        d["vars"] = {**d["vars"], "SETTINGS": d["vars"]["SETTINGS"] + "\nidle_probes = 0"}
    d["beside"] = [command for command in d.get("beside", []) if "watcher.py" not in command]
    d["seen"] = level == "metrics"
    return bench.Peer(f"seen-{level}{policy}", d, True)


def of_large_fleet(policy):
    """The idle cost of the admin server with a large fleet of absent replicas."""
    rows = {}
    for level in ("off", "metrics"):
        p = entry(level, policy)
        p.vars["SLACKWATER_REPLICAS"] = ", ".join(f'"127.1.{i // 250}.{i % 250 + 1}:80"' for i in range(MANY))
        rows[f"{level}-{MANY}{policy}"] = count(p)
    return rows


def middle(values):
    """(median, half of the distance between the second smallest and the second largest value): with 8 values, the 93 % interval."""
    values = sorted(values)
    return statistics.median(values), (values[-2] - values[1]) / 2


def timed(p, work):
    """Instructions of some work, minus the idle instructions of the same time."""
    instructions(p)
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    return instructions(p) - IDLE * took


def count(p, args=None):
    """Instructions of an idle process per second; with `args`, also per request, and per reader of the admin server if there is one."""
    global IDLE
    try:
        p.start(callgrind.under(p), PATIENCE_S)
        out = {}
        if args:
            client = Client(Http1, bench.PORT)
            client.send(args.requests)
        time.sleep(1)
        instructions(p)
        time.sleep(IDLE_S)
        IDLE = instructions(p) / IDLE_S
        out["each_second"] = round(IDLE)
        if args:
            out["each_request"] = [round(timed(p, lambda: client.send(args.requests)) / args.requests, 1) for _ in range(args.samples)]
        if p.d.get("seen"):
            ask("/metrics", 1)
            out["scrape"] = round(timed(p, lambda: ask("/metrics", 10)) / 10)
            out["tick"] = round(ticks(p, 5))
        return out
    finally:
        p.stop()


def ask(path, times):
    connection = http.client.HTTPConnection("127.0.0.1", bench.ADMIN_PORT, timeout=PATIENCE_S)
    for _ in range(times):
        connection.request("GET", path)
        if (answer := connection.getresponse()).status != 200:
            sys.exit(f"{path} was answered with {answer.status}")
        answer.read()


def ticks(p, times):
    """Instructions per tick for a reader of /events, minus those of ticks without a reader."""
    connection = http.client.HTTPConnection("127.0.0.1", bench.ADMIN_PORT, timeout=PATIENCE_S)
    connection.request("GET", "/events")
    events = connection.getresponse()

    def read(times):
        while times > 0:
            times -= events.readline().startswith(b"event: tick")

    read(1)
    return timed(p, lambda: read(times)) / times


def threads(pid):
    """{number: name}"""
    return {int(t): rd(f"/proc/{pid}/task/{t}/comm").strip() for t in os.listdir(f"/proc/{pid}/task")}


def traced(p, work):
    """({thread: {system call: count}} during some work, its duration)"""
    out = os.path.join(p.work, "strace")
    strace = subprocess.Popen([bench.STRACE, "-f", "-o", out, "-p", str(p.proc.pid)], stderr=subprocess.PIPE, text=True)
    names = threads(p.proc.pid)
    # strace prints a line when it has attached to all of them.
    strace.stderr.readline()
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    strace.send_signal(signal.SIGINT)
    strace.communicate(timeout=20)
    calls = collections.defaultdict(collections.Counter)
    for line in rd(out).splitlines():
        if match := re.match(r"(\d+) +([a-z_0-9]+)\(", line):
            calls[names.get(int(match[1]), "?")][match[2]] += 1
    return calls, took


def calls(p, args):
    try:
        p.start()
        client = Client(Http1, bench.PORT)
        client.send(1000)
        idle, idle_s = traced(p, lambda: time.sleep(2))
        busy, busy_s = traced(p, lambda: client.send(args.calls))
        return {thread: {call: round((times - idle[thread][call] * busy_s / idle_s) / args.calls, 4) for call, times in made.items()}
                for thread, made in busy.items()}
    finally:
        p.stop()


def by_level(measure):
    """Counts of every level and policy, or of the selected ones."""
    def rows(args):
        bench.prepare()
        back = bench.start_backend()
        try:
            found = {}
            for policy in POLICIES:
                for level in args.levels.split(",") if args.levels else [*LEVELS, *(MORE if measure is count else [])]:
                    found[f"{level}{policy}"] = row = measure(entry(level, policy), args)
                    log(f"{level}{policy}: {row}")
                if measure is count and not args.levels:
                    found.update(of_large_fleet(policy))
            return {"rows": found}
        finally:
            bench.stop(back)
            shutil.rmtree(bench.SHARED, ignore_errors=True)
    return rows


def times(args):
    """CPU per request; levels take turns within each repetition."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run.json")
        names = [f"seen-{level}{policy}" for policy in POLICIES for level in LEVELS]
        subprocess.run([f"{bench.HERE}/run.sh", *names, "--base", "seen-off", "--tests", args.tests, "--reps", str(args.reps),
                        "--secs", str(args.secs), "--out", out], check=True, stdout=subprocess.DEVNULL)
        return json.loads(rd(out))


MEASURES = {"counts": by_level(count), "calls": by_level(calls), "times": times}


def provenance(args, program="seeing.py", kept=("requests", "samples", "calls")):
    git = lambda *words: subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    model = re.search(r"^model name\s*: (.*)$", rd("/proc/cpuinfo"), re.M)
    changed = ", with changes" if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results") else ""
    binary = os.path.realpath(bench.E("SLACKWATER_BIN") or os.path.join(ROOT, "target/release/slackwater"))
    return {"command": " ".join([f"bench/proxies/{program}", *sys.argv[1:]]), "commit": git("rev-parse", "--short=12", "HEAD") + changed,
            "build": f"profile {os.path.basename(os.path.dirname(binary))}", "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "machine": f"{model[1] if model else os.uname().machine}, {os.cpu_count()} cores, Linux {os.uname().release.split('-')[0]}",
            "args": {key: getattr(args, key) for key in kept}}


def table(heads, rows):
    """A Markdown table; the first column is text."""
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return [line(heads), "|---|" + "--:|" * (len(heads) - 1), *map(line, rows), ""]


def count_tables(counts):
    rows, each, more = counts["rows"], [], []
    for level, what in LEVELS.items():
        cells = [what]
        for policy in POLICIES:
            centre, half = middle(rows[f"{level}{policy}"]["each_request"])
            cells += [f"{centre:,.0f} ± {half:,.0f}", "" if level == "off" else beyond(rows, level, policy, "off")]
        each.append(cells)
    for level, (like, what, _) in MORE.items():
        base = "metrics" if like == "decisions" else "off"
        more.append([f"a request, if {what}: more than without", *(beyond(rows, level, policy, base) for policy in POLICIES)])
        if level.endswith("-all"):
            more.append(["for each request, if that is one in a hundred", *(beyond(rows, level, policy, base, 100) for policy in POLICIES)])
    small, large = f"{len(bench.BACKENDS)} replicas", f"{MANY:,} replicas"
    for what, level, key in [("a second without requests, everything off", "off", "each_second"),
                             ("a second without requests, admin server on, nobody looks", "metrics", "each_second"),
                             ("a scrape of `/metrics`", "metrics", "scrape"), ("a second of `/events`, for its first reader", "metrics", "tick")]:
        for fleet, size in (("", small), (f"-{MANY}", large)):
            more.append([f"{what}; {size}", *(f"{rows[f'{level}{fleet}{policy}'][key]:,}" for policy in POLICIES)])
    heads = [cell for policy in POLICIES.values() for cell in (policy, "more than off")]
    return table(["instructions for each request", *heads], each) + table(["instructions", *POLICIES.values()], more)


def beyond(rows, level, policy, base, share=1):
    """The additional cost of a level for one request in this many."""
    (own, own_half), (off, off_half) = (middle(rows[f"{it}{policy}"]["each_request"]) for it in (level, base))
    more, half = (own - off) / share, math.hypot(own_half, off_half) / share
    return f"{more:+,.0f} ± {half:,.0f} ({100 * more / off:+.1f} %)"


def summary(data):
    """The conclusions, one sentence each."""
    out = []
    if counts := data.get("counts"):
        told = []
        for policy, name in POLICIES.items():
            centre = lambda level: middle(counts["rows"][f"{level}{policy}"]["each_request"])[0]
            told.append(f"{(centre('decisions-all') - centre('metrics')) / centre('metrics'):.2f} % under {name}")
        out.append(f"- Decisions of 1 % of the requests: {', '.join(told)} more instructions for each request. The limit is 1 %.")
    if calls := data.get("calls"):
        off, *others = (sum(calls["rows"][level][WORKER].values()) for level in LEVELS)
        out.append(f"- System calls of a worker for each request, round robin: {off:.2f} with everything off, {min(others):.2f} to {max(others):.2f} at all other levels.")
    return "\n".join(out) + "\n"


def call_tables(calls):
    rows, out = calls["rows"], []
    for policy, policy_name in POLICIES.items():
        made = {level: rows[f"{level}{policy}"] for level in LEVELS}
        named = sorted({call for threads in made.values() for call, times in threads.get(WORKER, {}).items() if times >= 0.01})
        lines = []
        for level, what in LEVELS.items():
            own = made[level].get(WORKER, {})
            others = sum(sum(calls.values()) for thread, calls in made[level].items() if thread != WORKER)
            lines.append([what, *(f"{own.get(call, 0):.3f}" for call in named), f"{sum(own.values()):.3f}", f"{max(0.0, others):.3f}"])
        out += table([policy_name, *(f"`{call}`" for call in named), "all of the worker's", "other threads'"], lines)
    return out


def time_tables(data):
    runs, out = data["runs"], []
    for test in dict.fromkeys(test for run in runs for test in run["tests"]):
        lines = []
        for level, what in LEVELS.items():
            cells = [what]
            for policy in POLICIES:
                own = samples(runs, f"seen-{level}{policy}", test, "cpu_us").values()
                ratio = paired(runs, f"seen-{level}{policy}", f"seen-off{policy}", test, "cpu_us")
                cells += [f"{statistics.median(own):.2f}" if own else "–",
                          "" if level == "off" else f"{ratio[0]:.3f} ({ratio[1]:.3f} to {ratio[2]:.3f})" if ratio else "–"]
            lines.append(cells)
        heads = [cell for policy in POLICIES.values() for cell in (f"{policy}, µs", "of off")]
        out += table([f"`{test}`", *heads], lines)
    return out


PAGE = """# What it costs to be seen

What metrics, the access log, decisions and traces add to a request through `slackwater serve`: two bytes by `GET /` over kept connections,
4 replicas, one worker. *Everything off* has no admin server (`admin.listen = "none"`); *metrics only* has one, without decisions;
*both* is decisions and traces; *everything* is an access log to a file, decisions and traces of 1 % of the requests, with `/metrics` scraped
every second and `/events` read. Traces go to a collector by gRPC. Prequal sends three UDP probes a query, without a least interval
between two.

Histograms and counters of requests are part of *everything off*: there is no switch for them. A request is added to three histograms, of
some 40 instructions each.
"""
HEADS = {
    "counts": ("Instructions", """Under callgrind, of all threads of the process, requests one after the other over 16 connections; what the process does in the same time without any is
taken off. Medians of {samples} times {requests:,} requests; ± is half of what lies between the second least and the second most. Nobody scrapes or reads meanwhile: that costs by the second, and
is counted alone. With the admin server on it notes the last minutes each second, and callgrind makes a second hold far fewer requests than
it would, so rows with it are less exact: what one request in a hundred costs is told best by what every one costs, in the second table."""),
    "calls": ("System calls", """Under strace, for each of {calls:,} requests, one after the other over 16 connections; what the same time takes without any is taken
off. Other threads are the access log's, which writes ten times a second and when a buffer fills, and the one that exports spans. Under Prequal
answers to probes come singly or several at once, as chance has it."""),
    "times": ("CPU time", """Of the process, by the scheduler's own account. `sat`: 64 connections in a closed loop; `rate8k`: 8,000 requests/s. Levels take turns within each
repetition; medians, and ratios to *everything off* within a repetition with their 95 % intervals."""),
}
TABLES = {"counts": count_tables, "calls": call_tables, "times": time_tables}


def page(data):
    out = [PAGE, summary(data)]
    for name, (head, about) in HEADS.items():
        if found := data.get(name):
            about = about.format(**found["args"])
            facts = [f"- {key.capitalize()}: {found[key]}" for key in ("command", "commit", "build", "date", "machine")]
            out += [f"## {head}", "", about, "", *facts, "", *TABLES[name](found)]
    return "\n".join(out).rstrip() + "\n"


def main():
    global DEFINITIONS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="counts,calls,times", help="some of the three; the page keeps what it has of the others")
    parser.add_argument("--requests", type=int, default=1500, help="of a sample of instructions")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--calls", type=int, default=5000, help="requests whose system calls are counted")
    parser.add_argument("--tests", default="sat")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--secs", type=float, default=3)
    parser.add_argument("--levels", default="", help="some alone, of instructions and system calls, told and not kept")
    parser.add_argument("--data", default=os.path.join(ROOT, "results/cost-of-seeing.json"))
    parser.add_argument("--page", default=os.path.join(ROOT, "results/cost-of-seeing.md"))
    args = parser.parse_args()
    DEFINITIONS = bench.definitions()
    data = json.loads(rd(args.data)) if os.path.exists(args.data) else {}
    for name in args.only.split(","):
        if args.levels:
            MEASURES[name](args)
            continue
        data[name] = {**provenance(args), **MEASURES[name](args)}
        with open(args.data, "w") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
    if not args.levels:
        with open(args.page, "w") as file:
            file.write(page(data))


if __name__ == "__main__":
    main()
