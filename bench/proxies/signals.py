#!/usr/bin/env python3
"""Counts what it costs a replica to know what it can carry, and to tell: for an agent before a server, and for the layer of the library. See README.md."""
import argparse, contextlib, json, math, os, re, socket, subprocess, sys, tempfile, time
from instructions import read_response
from seeing import instructions, middle, provenance, table

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BASE = int(os.environ.get("BASE_PORT", "18080"))
AGENT, SERVER = BASE + 10, BASE + 11
BIN = os.environ.get("SLACKWATER_BIN") or os.path.join(ROOT, "target/quick/slackwater")
FOLDER = os.path.dirname(os.path.realpath(BIN))
BURNER = os.environ.get("BURNER_BIN") or os.path.join(FOLDER, "slackwater-burner")
EXAMPLE = os.environ.get("EXAMPLE_BIN") or os.path.join(FOLDER, "examples/learning_cost")
CONNS, IDLE_S, NATIVE_S, PATIENCE_S = 16, 4, 10, 60
RATES = [100, 1000]
# The agent reads the server's CPU twenty times a second, and five times while the server is quiet, as at 100 requests a second; but it
# waits longer after a reading that took long, as all do under callgrind. So what readings take each second is taken from
# docs/signals.md, of one thread, on top of those that are counted there.
READINGS_EACH_SECOND = {100: 3_550 + 4 * 840, 1000: 3_550 + 19 * 840}
REPORTS = "report_with_responses = true\n"
# Settings of the agent; the server's cgroup goes in.
AGENTS = {
    "none": ("neither", lambda group: ""),
    "responses": ("`report_with_responses`", lambda group: REPORTS),
    "cgroup": ("`replica.cgroup`", lambda group: f"[replica]\ncgroup = \"{group}\"\n"),
    "both": ("both", lambda group: f"{REPORTS}[replica]\ncgroup = \"{group}\"\n"),
}
LAYERS = {
    "bare": "hyper alone",
    "counted": "the layer, which learns nothing",
    "latency": "it learns by latency, as by default",
    "cpu": "and by its CPU",
    "responses": "and responses tell",
}


class Process:
    """Under callgrind, or as it is."""

    def __init__(self, folder, command, port, counted=True):
        self.work = tempfile.mkdtemp(dir=folder)
        under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.work}/callgrind"] if counted else []
        self.err = open(os.path.join(self.work, "stderr"), "w")
        self.proc = subprocess.Popen([*under, *command], stdout=self.err, stderr=self.err, stdin=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                if self.proc.poll() is not None or time.monotonic() > until:
                    self.stop()
                    sys.exit(f"{command[0]} does not listen at {port}: {open(self.err.name).read()}")
                time.sleep(0.1)

    def stop(self):
        self.proc.kill()
        self.proc.wait()
        self.err.close()

    def cpu_us(self):
        """By the scheduler's own account."""
        tasks = f"/proc/{self.proc.pid}/task"
        return sum(int(open(f"{tasks}/{t}/schedstat").read().split()[0]) for t in os.listdir(tasks)) / 1e3


@contextlib.contextmanager
def cgroup():
    """A group with a quota that is never used up, as a container has one."""
    mounts = [line.split()[1:4] for line in open("/proc/self/mounts")]
    one = next((at for at, kind, options in mounts if kind == "cgroup" and "cpu" in options.split(",")), None)
    two = next((at for at, kind, _ in mounts if kind == "cgroup2"), None)
    group = os.path.join(one or two or sys.exit("no cgroup controller cpu is mounted"), f"slackwater-signals-{os.getpid()}")
    os.mkdir(group)
    try:
        with open(f"{group}/cpu.cfs_quota_us" if one else f"{group}/cpu.max", "w") as file:
            file.write("1000000" if one else "1000000 100000")
        yield group
    finally:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            try:
                return os.rmdir(group)
            except OSError:
                time.sleep(0.05)


class Client:
    """Sends one request after the other, over kept connections that take turns: the same work each time."""

    def __init__(self, port):
        self.request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: loadgen\r\nAccept: */*\r\n\r\n".encode()
        self.connections = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(CONNS)]

    def send(self, requests):
        for i in range(requests):
            connection = self.connections[i % CONNS]
            connection.sendall(self.request)
            read_response(connection)


def probe(port, probes):
    """Over UDP, one after the other: docs/probe-protocol.md."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", port))
        asker.settimeout(PATIENCE_S)
        for nonce in range(probes):
            asker.send(b"SLWP\x01\x01\0\0" + nonce.to_bytes(8, "big") + bytes(80))
            if asker.recv(512)[8:16] != nonce.to_bytes(8, "big"):
                sys.exit(f"an answer to another probe than {nonce} came from {port}")


def count(port, processes, args, probes=0):
    """Instructions of the processes for each request, beyond those of the same time without any, and each second of that; and of the
    first for each probe, if any are sent."""
    client = Client(port)
    client.send(args.requests)
    time.sleep(1)
    look = lambda: [instructions(it) for it in processes]
    look()
    time.sleep(IDLE_S)
    idle = [it / IDLE_S for it in look()]
    out = {"each_second": [round(it) for it in idle], "each_request": []}
    for _ in range(args.samples):
        look()
        began = time.monotonic()
        client.send(args.requests)
        took = time.monotonic() - began
        out["each_request"].append([round((counted - each * took) / args.requests, 1) for counted, each in zip(look(), idle)])
    if probes:
        look()
        began = time.monotonic()
        probe(port, probes)
        out["each_probe"] = round((look()[0] - idle[0] * (time.monotonic() - began)) / probes)
    return out


def idle_cpu(process):
    """Microseconds of CPU each second, user and kernel, while nothing is asked of it."""
    time.sleep(1)
    before = process.cpu_us()
    time.sleep(NATIVE_S)
    return round((process.cpu_us() - before) / NATIVE_S)


def agents(args, folder):
    rows = {}
    for name, (_, settings) in AGENTS.items():
        with cgroup() as group, contextlib.ExitStack() as stack:
            def start(counted):
                server = Process(folder, [BURNER, "replica", f"127.0.0.1:{SERVER}", "--cost-us", "0", "--threads", "1"], SERVER, counted)
                stack.callback(server.stop)
                with open(f"{group}/cgroup.procs", "w") as file:
                    file.write(str(server.proc.pid))
                toml = os.path.join(folder, "agent.toml")
                with open(toml, "w") as file:
                    file.write("workers = 1\n" + settings(group))
                command = [BIN, "agent", "--config", toml, "--listen", f"127.0.0.1:{AGENT}", "--to", f"127.0.0.1:{SERVER}"]
                agent = Process(folder, command, AGENT, counted)
                stack.callback(agent.stop)
                return agent, server

            pair = start(False)
            row = {"idle_cpu_us_each_second": idle_cpu(pair[0])}
            stack.close()
            rows[name] = {**row, **count(AGENT, start(True), args, args.requests)}
            rows[name]["readings_each_second"] = READINGS_EACH_SECOND if name in ("cgroup", "both") else {}
            stack.close()
        print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
    return rows


def layers(args, folder):
    rows = {}
    for name in LAYERS:
        server = Process(folder, [EXAMPLE, f"127.0.0.1:{SERVER}", name], SERVER)
        try:
            rows[name] = count(SERVER, [server], args)
        finally:
            server.stop()
        print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
    return rows


def each_request(row):
    """(centre, half of the interval) of all processes together."""
    return middle([sum(sample) for sample in row["each_request"]])


def at_rate(row, rate):
    # The data is kept as JSON, which has no keys but text.
    readings = {int(rate): each for rate, each in row.get("readings_each_second", {}).items()}
    return each_request(row)[0] + (sum(row["each_second"]) + readings.get(rate, 0)) / rate


def tables(rows, names, base, natively):
    off = rows[base]
    lines = []
    for name, what in names.items():
        row = rows[name]
        centre, half = each_request(row)
        more = centre - each_request(off)[0]
        around = math.hypot(half, each_request(off)[1])
        cells = [what, f"{centre:,.0f} ± {half:,.0f}", "" if name == base else f"{more:+,.0f} ± {around:,.0f}", f"{sum(row['each_second']):,}"]
        cells += ["" if name == base else f"{100 * (at_rate(row, rate) / at_rate(off, rate) - 1):+.2f} %" for rate in RATES]
        lines.append(cells + ([f"{row['idle_cpu_us_each_second']:,}"] if natively else []))
    heads = ["", "each request", "more", "each second", *(f"more in all, at {rate:,} requests/s" for rate in RATES)]
    return table(heads + (["µs of CPU each second, idle"] if natively else []), lines)


PAGE = """# What it costs to know what a replica can carry

What is learned of capacity and cost ([signals](../docs/signals.md), [agent](../docs/agent.md#capacity)), and told with responses, in instructions of the processes that serve: an
agent and the server behind it, together; and a server with the library's layer. The limit is 1 %. The servers answer two
bytes (`served`) at once and do nothing else, which is the hardest ground: any application's work makes the part smaller.

Under callgrind, requests one after the other over 16 connections; *each second* is what a process does without any, in the same second; *each request* is what
comes on top. Medians of {samples} times {requests:,} requests; ± is half of what lies between the second least and the second most. The kernel's
instructions are not in it: *µs of CPU each second* are user and kernel, of the idle agent as it is, without callgrind, over {native} s.

{facts}

{summary}

## An agent and its server

The server's cgroup has one thread and a quota. What readings take in *more in all* is added to what is counted *each second*: 20 of them at 1,000 requests/s, 5 at
100, where the server is quiet; 3,550 instructions for one of everything and 840 for
each of the others, of times alone ([what it costs](../docs/signals.md#what-it-costs)); with 16 threads it takes more. Under callgrind a reading takes so long that the
agent makes fewer, and learns from 256 queries at each, so that not all of those that are sent here are learned from where the CPU is read; at a reading every 50 ms all are, as in the
row of responses without the CPU: if that has more, *both* is given as much for each request. What is learned late, from requests before, is in *each second* of the rows
with the CPU, and so is a part of the readings: both make them dearer than they are.

{agents}

## The layer

A report is asked for twenty times a second, as probes do, and has it learn: from the newest 256 queries at the most. More than that end here from one to the
next, so that some are not learned from; where all are, at up to 5,000 a second, learning takes 280 instructions each.

{layers}
"""


def page(data):
    rows = data["agents"]
    # With the CPU fewer are learned from than would be: see the page.
    rows = {**rows, "both": {**rows["both"], "each_request": max(rows["both"]["each_request"], rows["responses"]["each_request"], key=lambda it: middle([sum(sample) for sample in it])[0])}}
    carried = each_request(rows["responses"])[0] - each_request(rows["none"])[0]
    told = lambda rows, name, base, rate: f"{100 * (at_rate(rows[name], rate) / at_rate(rows[base], rate) - 1):+.2f} %"
    summary = "\n".join([
        f"- Agent and server, the server's CPU read and responses that tell: {told(rows, 'both', 'none', 100)} at 100 requests/s, {told(rows, 'both', 'none', 1000)} at 1,000; "
        f"the CPU alone, hardly anything learned: {told(rows, 'cgroup', 'none', 100)} and {told(rows, 'cgroup', 'none', 1000)}.",
        f"- A report with a response, and what is learned for it, takes an agent {carried:,.0f} instructions, an answer to a probe over UDP, one at a time, {rows['both']['each_probe']:,}: with reports a balancer sends half a probe for each "
        f"request where it sends three without, so an agent saves {2.5 * rows['both']['each_probe'] - carried:,.0f} for each request.",
        f"- The layer, all of it, of one that learns nothing: {told(data['layers'], 'responses', 'counted', 100)} and {told(data['layers'], 'responses', 'counted', 1000)}; "
        f"without telling: {told(data['layers'], 'cpu', 'counted', 100)} and {told(data['layers'], 'cpu', 'counted', 1000)}.",
    ])
    return PAGE.format(
        samples=data["args"]["samples"], requests=data["args"]["requests"], native=NATIVE_S,
        facts="\n".join(f"- {key.capitalize()}: {data[key]}" for key in ("command", "commit", "build", "date", "machine")),
        summary=summary,
        agents="\n".join(tables(rows, {name: what for name, (what, _) in AGENTS.items()}, "none", True)).rstrip(),
        layers="\n".join(tables(data["layers"], LAYERS, "counted", False)).rstrip(),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1500, help="of a sample")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--only", default="agents,layers", help="some of the two; the page keeps what it has of the other")
    parser.add_argument("--data", default=os.path.join(ROOT, "results/cost-of-signals.json"))
    parser.add_argument("--page", default=os.path.join(ROOT, "results/cost-of-signals.md"))
    args = parser.parse_args()
    args.calls = 0
    data = json.load(open(args.data)) if os.path.exists(args.data) else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            data[name] = {"agents": agents, "layers": layers}[name](args, folder)
    data.update(provenance(args))
    data["command"] = " ".join(["bench/proxies/signals.py", *sys.argv[1:]])
    with open(args.data, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    with open(args.page, "w") as file:
        file.write(page(data))


if __name__ == "__main__":
    main()
