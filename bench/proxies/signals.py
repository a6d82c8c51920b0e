#!/usr/bin/env python3
"""Counts the cost of learning and reporting a replica's capacity: for an agent before a server, and for the layer of the library. See README.md."""
import argparse, contextlib, glob, json, math, os, signal, socket, subprocess, sys, tempfile, time
from callgrind import instructions, under
from client import Client, Http1
from seeing import middle, provenance, table

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BASE = int(os.environ.get("BASE_PORT", "18080"))
AGENT, SERVER = BASE + 10, BASE + 11
BIN = os.environ.get("SLACKWATER_BIN") or os.path.join(ROOT, "target/quick/slackwater")
FOLDER = os.path.dirname(os.path.realpath(BIN))
BURNER = os.environ.get("BURNER_BIN") or os.path.join(FOLDER, "slackwater-burner")
EXAMPLE = os.environ.get("EXAMPLE_BIN") or os.path.join(FOLDER, "examples/learning_cost")
WINDOW_S, PATIENCE_S = 5, 60
# Time until recent measurements have been processed: readings are at most a second apart.
FORGOTTEN_S = 2.5
RATES = [100, 1000]
# Highest request rate, so that at most 256 requests end between two readings, which is what the
# estimate uses: under callgrind the agent's readings are up to some 200 ms apart. It is high enough
# that the server counts as busy.
AGENT_PACE, LAYER_PACE = 500, 2000
# Responses show the agent that its server is there. Without requests it must not check that either.
CHECK = "1m"
# The agent's reading thread.
READER = "server-cpu"
REPORTS = "report_with_responses = true\n"
# Settings of the agent, with the server's cgroup inserted.
AGENTS = {
    "none": ("neither", lambda group: ""),
    "responses": ("`report_with_responses`", lambda group: REPORTS),
    "cgroup": ("`replica.cgroup`", lambda group: f"[replica]\ncgroup = \"{group}\"\n"),
    "both": ("both", lambda group: f"{REPORTS}[replica]\ncgroup = \"{group}\"\n"),
}
# CPU time of a request for the working server, in microseconds, and requests per second.
WORK_US, WORK_RATE = 2170, 100
LAYERS = {
    "bare": "hyper alone",
    "counted": "the layer, which learns nothing",
    "latency": "it learns by latency, as by default",
    "cpu": "and by its CPU",
    "responses": "and responses tell",
}


class Process:
    """A process, optionally under callgrind."""

    def __init__(self, folder, command, port, counted=True):
        self.work = tempfile.mkdtemp(dir=folder)
        before = under(self, "--fair-sched=yes") if counted else []
        self.err = open(os.path.join(self.work, "stderr"), "w")
        self.proc = subprocess.Popen([*before, *command], stdout=self.err, stderr=self.err, stdin=subprocess.DEVNULL)
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

    def reads(self):
        """Number of reads by the thread that reads the server's CPU, if it has one."""
        for task in glob.glob(f"/proc/{self.proc.pid}/task/*"):
            if open(f"{task}/comm").read().strip() == READER:
                return int(next(line for line in open(f"{task}/io") if line.startswith("syscr")).split()[1])
        return 0

    def cpu_us(self):
        """CPU time by the scheduler's accounting."""
        tasks = f"/proc/{self.proc.pid}/task"
        return sum(int(open(f"{tasks}/{t}/schedstat").read().split()[0]) for t in os.listdir(tasks)) / 1e3


@contextlib.contextmanager
def cgroup():
    """A cgroup with a quota that is never used up, as in a container."""
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


def probe(port, probes):
    """Sends probes over UDP, one after the other: docs/reference/probe-protocol.md."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", port))
        asker.settimeout(PATIENCE_S)
        for nonce in range(probes):
            asker.send(b"SLWP\x01\x01\0\0" + nonce.to_bytes(8, "big") + bytes(80))
            if asker.recv(512)[8:16] != nonce.to_bytes(8, "big"):
                sys.exit(f"an answer to another probe than {nonce} came from {port}")


class Window:
    """The interval between two readings: instructions and reads of all processes, per second."""

    def __init__(self, processes):
        self.processes = processes
        self.instructions()
        self.began, self.reads = time.monotonic(), self.all_reads()

    def instructions(self):
        return sum(instructions(it) for it in self.processes)

    def all_reads(self):
        return sum(it.reads() for it in self.processes)

    def end(self):
        took, reads = time.monotonic() - self.began, self.all_reads() - self.reads
        return {"instructions": round(self.instructions() / took), "reads": round(reads / took, 1), "seconds": round(took, 3)}


def by_time(row, reads):
    """Instructions per second without requests, at this many reads per second: interpolated between the counts of a quiet
    and a busy server."""
    quiet, busy = row["quiet"], row["busy"]
    more = busy["reads"] - quiet["reads"]
    return quiet["instructions"] + ((busy["instructions"] - quiet["instructions"]) * (reads - quiet["reads"]) / more if more else 0)


def count(port, processes, busy, pace, args, probes=0):
    """Instructions of `processes`: per second while the server is quiet, and while it is `busy` with an open request without
    work; additionally per request; and of the first process per probe, if there are any."""
    client = Client(Http1, port)
    client.send(args.requests, pace)
    time.sleep(FORGOTTEN_S)
    window = Window(processes)
    time.sleep(WINDOW_S)
    out = {"quiet": window.end()}
    with busy() as working:
        time.sleep(1)
        window = Window(working)
        time.sleep(WINDOW_S)
        out["busy"] = window.end()
    idle = [it for it in processes if it not in working]
    if idle:
        # It is stopped while the other is busy, so its idle work is measured separately.
        window = Window(idle)
        time.sleep(WINDOW_S)
        out["busy"]["instructions"] += window.end()["instructions"]
    out["windows"], out["each_request"] = [], []
    client.send(args.requests, pace)
    for _ in range(args.samples):
        window = Window(processes)
        client.send(args.requests, pace)
        end = window.end()
        out["windows"].append(end)
        # Without separate readings, a server under continuous requests is as busy as this.
        each_second = by_time(out, end["reads"]) if out["busy"]["reads"] else out["busy"]["instructions"]
        out["each_request"].append(round((end["instructions"] - each_second) * end["seconds"] / args.requests, 1))
    if probes:
        window = Window(processes[:1])
        probe(port, probes)
        end = window.end()
        out["each_probe"] = round((end["instructions"] - by_time(out, end["reads"])) * end["seconds"] / probes)
    return out


def natively(agent, port):
    """Without callgrind: microseconds of CPU per second, user and kernel, of an idle agent, and its reads per second at
    the rates."""
    client = Client(Http1, port)
    client.send(len(client.connections), AGENT_PACE)
    time.sleep(FORGOTTEN_S)
    before = agent.cpu_us()
    time.sleep(WINDOW_S)
    out = {"idle_cpu_us_each_second": round((agent.cpu_us() - before) / WINDOW_S), "reads_at": {}, "rates": {}}
    for rate in RATES:
        client.send(rate, rate)
        before = agent.reads()
        took = client.send(rate * WINDOW_S, rate)
        out["reads_at"][str(rate)] = round((agent.reads() - before) / took, 1)
        out["rates"][str(rate)] = round(rate * WINDOW_S / took)
    return out


def agent_of(folder, group, name, server, counted):
    """An agent with these settings before the server, which is moved into the cgroup."""
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(server.proc.pid))
    toml = os.path.join(folder, "agent.toml")
    with open(toml, "w") as file:
        file.write(f"workers = 1\ncheck_interval = \"{CHECK}\"\n{AGENTS[name][1](group)}")
    command = [BIN, "agent", "--config", toml, "--listen", f"127.0.0.1:{AGENT}", "--to", f"127.0.0.1:{SERVER}"]
    return Process(folder, command, AGENT, counted)


def agents(args, folder):
    rows = {}
    for name in AGENTS:
        with cgroup() as group, contextlib.ExitStack() as stack:
            def start(counted):
                server = Process(folder, [BURNER, "replica", f"127.0.0.1:{SERVER}", "--cost-us", "0", "--threads", "1"], SERVER, counted)
                stack.callback(server.stop)
                agent = agent_of(folder, group, name, server, counted)
                stack.callback(agent.stop)
                return agent, server

            def kept_busy(agent, server):
                @contextlib.contextmanager
                def busy():
                    connection = Http1(AGENT)
                    connection.request()
                    server.proc.send_signal(signal.SIGSTOP)
                    connection.write()
                    yield [agent]
                    server.proc.send_signal(signal.SIGCONT)
                    connection.read()
                return busy

            agent, _ = start(False)
            row = natively(agent, AGENT)
            stack.close()
            agent, server = start(True)
            rows[name] = {**row, **count(AGENT, [agent, server], kept_busy(agent, server), AGENT_PACE, args, args.requests)}
            stack.close()
        print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
    return rows


def work(args, folder):
    """Microseconds of CPU per request, user and kernel, of agent and server, without callgrind. Settings take turns, because
    the cost varies from minute to minute by more than the difference of interest."""
    rows = {name: {"agent_us": [], "server_us": []} for name in ("none", "both")}
    for _ in range(args.samples):
        for name, row in rows.items():
            with cgroup() as group, contextlib.ExitStack() as stack:
                server = Process(folder, [BURNER, "replica", f"127.0.0.1:{SERVER}", "--cost-us", str(WORK_US), "--threads", "1"], SERVER, False)
                stack.callback(server.stop)
                agent = agent_of(folder, group, name, server, False)
                stack.callback(agent.stop)
                client, requests = Client(Http1, AGENT), WORK_RATE * WINDOW_S
                client.send(requests, WORK_RATE)
                before = agent.cpu_us(), server.cpu_us()
                client.send(requests, WORK_RATE)
                row["agent_us"].append((agent.cpu_us() - before[0]) / requests)
                row["server_us"].append((server.cpu_us() - before[1]) / requests)
    print(f"work: {rows}", file=sys.stderr, flush=True)
    return rows


def layers(args, folder):
    rows = {}

    @contextlib.contextmanager
    def busy():
        with socket.create_connection(("127.0.0.1", SERVER)) as connection:
            connection.sendall(b"GET /wait HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            yield [server]

    for name in LAYERS:
        server = Process(folder, [EXAMPLE, f"127.0.0.1:{SERVER}", name], SERVER)
        try:
            rows[name] = count(SERVER, [server], busy, LAYER_PACE, args)
        finally:
            server.stop()
        print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
    return rows


def each_request(row):
    """(centre, half of the interval)."""
    return middle(row["each_request"])


def at_rate(row, rate):
    """Instructions per request, including the cost per time. The layer reads when a report is requested; its server counts as
    busy at the highest rate, and as quiet below."""
    if "reads_at" in row:
        each_second = by_time(row, row["reads_at"][str(rate)])
    else:
        each_second = row["busy" if rate == max(RATES) else "quiet"]["instructions"]
    return each_request(row)[0] + each_second / rate


def tables(rows, names, base, is_agent):
    off = rows[base]
    lines = []
    for name, what in names.items():
        row = rows[name]
        centre, half = each_request(row)
        more = centre - each_request(off)[0]
        around = math.hypot(half, each_request(off)[1])
        cells = [what, f"{centre:,.0f} ± {half:,.0f}", "" if name == base else f"{more:+,.0f} ± {around:,.0f}", *(f"{row[when]['instructions']:,}" for when in ("quiet", "busy"))]
        cells += ["" if name == base else f"{100 * (at_rate(row, rate) / at_rate(off, rate) - 1):+.2f} %" for rate in RATES]
        lines.append(cells + ([f"{row['idle_cpu_us_each_second']:,}"] if is_agent else []))
    heads = ["", "each request", "more", "each second, quiet", "busy", *(f"more in all, at {rate:,} requests/s" for rate in RATES)]
    return table(heads + (["µs of CPU each second, idle"] if is_agent else []), lines)


PAGE = """# What it costs to know what a replica can carry

What is learned of capacity and cost ([signals](../docs/explanation/signals.md), [agent](../docs/reference/agent.md#capacity)), and told with responses, in instructions of the processes that serve: an
agent and the server behind it, together; and a server with the library's layer. The limit is 1 %. The servers answer two
bytes (`served`) at once and do nothing else, which is the hardest ground: any application's work makes the part smaller.

Under callgrind, requests one after the other over 16 connections, at most {agent_pace:,} a second, and {layer_pace:,} of the layer, so that nearly all are learned from. *Each second* is what the processes do without any, over {window} s and after all
that was sent before has been learned: *quiet*, with nothing in flight, and *busy*, with one request in flight that nobody works on. *Each request* is what
comes on top of that. Medians of {samples} times {requests:,} requests; ± is half of what lies between the second least and the second most. *More
in all* is each request's and its part of each second's. The kernel's instructions are not in it: *µs of CPU each second* are user and kernel, of the idle agent as it is, without callgrind, over {window} s.

{facts}

{summary}

## An agent and its server

The server's cgroup has one thread and a quota; with 16 threads readings take [more](../docs/explanation/signals.md#what-it-costs). A reading is some system calls to read, and they are counted, of the agent's thread
that makes them: what there is *each second* at one rate of requests is on the line through *quiet* and *busy*, at the reads that the agent makes at that rate as it is, without
callgrind. So the part that is by time is counted once. The agent does not look for its server meanwhile (`check_interval`), as it does not while there are responses. *Both*: {reads}.

{agents}

## A server that works

An agent with both, as it is, without callgrind, before a server that burns {work_us:,} µs of CPU for each request, at {work_rate} requests/s: µs of CPU of a request, user and kernel. Medians of {samples} turns of {work_requests:,} requests
each; ± as above. More is of the agent's and the server's together.

{work}

## The layer

A report is asked for twenty times a second, as probes do, and has it learn. At 1,000 requests/s the server is taken to be *busy*, with a reading each time; at 100 *quiet*, with a
reading each second.

{layers}
"""


def work_table(rows):
    each = {name: {whose: middle(values) for whose, values in row.items()} for name, row in rows.items()}
    (without, around), (with_both, around_both) = (each[name]["agent_us"] for name in ("none", "both"))
    more, more_around = with_both - without, math.hypot(around, around_both)
    whole = without + each["none"]["server_us"][0]
    cells = lambda name: [f"{each[name][whose][0]:,.1f} ± {each[name][whose][1]:,.1f}" for whose in ("agent_us", "server_us")]
    lines = [
        [AGENTS["none"][0], *cells("none"), "", ""],
        [AGENTS["both"][0], *cells("both"), f"{more:+.1f} ± {more_around:.1f}", f"{100 * more / whole:+.2f} % ± {100 * more_around / whole:.2f}"],
    ]
    return table(["", "agent", "server", "more, of the agent", "in all"], lines)


def reads_of(row):
    """The reads per second behind the numbers, in words."""
    at_rates = [f"{row['reads_at'][str(rate)]:.0f} at {rate:,} requests/s ({row['rates'][str(rate)]:,} were reached)" for rate in RATES]
    window = middle([it["reads"] for it in row["windows"]])[0]
    return f"{', '.join(at_rates)}; under callgrind {row['quiet']['reads']:.0f} quiet, {row['busy']['reads']:.0f} busy, and {window:.0f} while requests are sent"


def page(data):
    rows = data["agents"]
    carried = each_request(rows["responses"])[0] - each_request(rows["none"])[0]
    told = lambda rows, name, base, rate: f"{100 * (at_rate(rows[name], rate) / at_rate(rows[base], rate) - 1):+.2f} %"
    summary = "\n".join([
        f"- Agent and server, the server's CPU read and responses that tell: {told(rows, 'both', 'none', 100)} at 100 requests/s, {told(rows, 'both', 'none', 1000)} at 1,000; "
        f"the CPU alone: {told(rows, 'cgroup', 'none', 100)} and {told(rows, 'cgroup', 'none', 1000)}.",
        f"- To tell with a response, and to learn what is told, takes an agent {carried:,.0f} instructions, an answer to a probe over UDP, one at a time, {rows['both']['each_probe']:,}: with reports a balancer sends half a probe for each "
        f"request where it sends three without, so an agent saves {2.5 * rows['both']['each_probe'] - carried:,.0f} for each request.",
        f"- The layer, all of it, of one that learns nothing: {told(data['layers'], 'responses', 'counted', 100)} and {told(data['layers'], 'responses', 'counted', 1000)}; "
        f"without telling: {told(data['layers'], 'cpu', 'counted', 100)} and {told(data['layers'], 'cpu', 'counted', 1000)}.",
    ])
    return PAGE.format(
        samples=data["args"]["samples"], requests=data["args"]["requests"], window=WINDOW_S, agent_pace=AGENT_PACE, layer_pace=LAYER_PACE, reads=reads_of(rows["both"]),
        work_us=WORK_US, work_rate=WORK_RATE, work_requests=WORK_RATE * WINDOW_S, work="\n".join(work_table(data["work"])).rstrip(),
        facts="\n".join(f"- {key.capitalize()}: {data[key]}" for key in ("command", "commit", "build", "date", "machine")),
        summary=summary,
        agents="\n".join(tables(rows, {name: what for name, (what, _) in AGENTS.items()}, "none", True)).rstrip(),
        layers="\n".join(tables(data["layers"], LAYERS, "counted", False)).rstrip(),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1500, help="of a sample")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--only", default="agents,work,layers", help="some of the three; the page keeps what it has of the others; of none, the page is written anew")
    parser.add_argument("--data", default=os.path.join(ROOT, "results/cost-of-signals.json"))
    parser.add_argument("--page", default=os.path.join(ROOT, "results/cost-of-signals.md"))
    args = parser.parse_args()
    data = json.load(open(args.data)) if os.path.exists(args.data) else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(None, args.only.split(",")):
            data[name] = {"agents": agents, "work": work, "layers": layers}[name](args, folder)
    if args.only:
        data.update(provenance(args, "signals.py", ("requests", "samples")))
        data["build"] = f"profile {os.path.basename(FOLDER)}"
    with open(args.data, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    with open(args.page, "w") as file:
        file.write(page(data))


if __name__ == "__main__":
    main()
