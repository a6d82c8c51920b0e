#!/usr/bin/env python3
"""Writes the tables of docs/research/benchmarks.md, between its two markers, from a run's raw data.

    ./page.py ../../results/benchmarks/proxies.json ../../docs/research/benchmarks.md
"""
import json, math, statistics, sys

from summary import get

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
BASE = "nginx"
ROWS = [  # (what, test, key, digits, divided by)
    ("HTTP/1.1, CPU, µs a request", "sat", "cpu_us", 1, 1),
    ("of that in user mode, µs", "sat", "user_us", 1, 1),
    ("the same at 8,000 requests/s, µs", "rate8k", "cpu_us", 1, 1),
    ("the same at 2,000 requests/s, µs", "rate2k", "cpu_us", 1, 1),
    ("latency at 2,000 requests/s, p50, µs", "rate2k", "lat_us.p50", 0, 1),
    ("latency at 2,000 requests/s, p99, µs", "rate2k", "lat_us.p99", 0, 1),
    ("64 KiB bodies, CPU, µs a request", "sat64k", "cpu_us", 1, 1),
    ("h2c, CPU, µs a request", "h2", "cpu_us", 1, 1),
    ("gRPC-like, CPU, µs a request", "grpc", "cpu_us", 1, 1),
    ("TLS 1.3, kept connections, CPU, µs a request", "tls", "cpu_us", 1, 1),
    ("TLS 1.3, a new session, CPU, µs a connection", "tlsnew", "cpu_us", 0, 1),
    ("TLS 1.3, a resumed session, CPU, µs a connection", "tlsresume", "cpu_us", 0, 1),
    ("memory, idle, MiB", "rss", "idle_rss_kib", 1, 1024),
    ("memory for each idle connection, KiB", "rss", "kib_per_conn", 1, 1),
    ("system calls, HTTP/1.1, closed loop", "syscalls", "closed.total", 1, 1),
    ("system calls, h2c", "syscalls", "h2.total", 1, 1),
    ("system calls, gRPC-like", "syscalls", "grpc.total", 1, 1),
]
TARGETS = [  # (what, test, key, of, to (None: absolute), limit)
    ("HTTP/1.1, CPU for each request, of nginx's", "sat", "cpu_us", "slackwater", "nginx", 0.92),
    ("h2c, CPU for each request, of nginx's", "h2", "cpu_us", "slackwater", "nginx", 0.50),
    ("gRPC-like, CPU for each request, of nginx's", "grpc", "cpu_us", "slackwater", "nginx", 0.22),
    ("64 KiB bodies, CPU, of nginx's with large buffers", "sat64k", "cpu_us", "slackwater", "nginx-buf", 0.85),
    ("as it ships, at 2,000 requests/s: CPU, of round robin's", "rate2k", "cpu_us", "slackwater-default", "slackwater", 1.05),
    ("memory for each idle connection, KiB", "rss", "kib_per_conn", "slackwater", None, 2),
    ("memory, idle, MiB", "rss", "idle_rss_kib", "slackwater", None, 15),
    ("HTTP/1.1, system calls a request", "syscalls", "closed.total", "slackwater", None, 4.1),
]
# Two-sided 95 % quantiles of Student's t, by degrees of freedom.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 11: 2.20, 12: 2.18, 14: 2.14, 19: 2.09}


def samples(runs, peer, test, key):
    """{repetition: value}"""
    found = {r["rep"]: get(r, test, key) for r in runs if r["peer"] == peer}
    return {rep: v for rep, v in found.items() if v is not None}


def interval(values):
    """(centre, low, high) of positive values: their geometric mean and its 95 % interval."""
    logs = [math.log(v) for v in values]
    mean, n = statistics.mean(logs), len(logs)
    if n < 2:
        return math.exp(mean), math.exp(mean), math.exp(mean)
    t = T95[max(k for k in T95 if k <= n - 1)]
    half = t * statistics.stdev(logs) / math.sqrt(n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def paired(runs, peer, base, test, key):
    mine, theirs = samples(runs, peer, test, key), samples(runs, base, test, key)
    ratios = [mine[rep] / theirs[rep] for rep in mine if theirs.get(rep) and mine[rep] > 0]
    return interval(ratios) if ratios else None


def page(data):
    runs = data["runs"]
    # What ships comes first.
    peers = sorted(dict.fromkeys(r["peer"] for r in runs), key=lambda it: it != "slackwater-default")
    meta = data["meta"]
    out = [f"{meta['reps']} repetitions of {meta['secs']} s, {meta['date'][:10]}, Linux {meta['uname'].split()[1]}, {meta['cpus']} cores.", ""]
    out += [f"- {name}: {version}" for name, version in meta["versions"].items() if version]
    out += ["", "### Targets", "", "| what | measured | 95 % interval | target | |", "|---|--:|---|--:|---|"]
    for what, test, key, of, to, limit in TARGETS:
        if to:
            found = paired(runs, of, to, test, key)
        else:
            scale = next((r[4] for r in ROWS if r[1:3] == (test, key)), 1)
            values = [v / scale for v in samples(runs, of, test, key).values() if v > 0]
            found = interval(values) if values else None
        if found:
            centre, low, high = found
            verdict = "met" if centre <= limit else "met within the interval" if low <= limit else "missed"
            out.append(f"| {what} | {centre:.2f} | {low:.2f} to {high:.2f} | ≤ {limit} | {verdict} |")
    out += ["", "### Medians", "", "| | " + " | ".join(peers) + " |", "|---|" + "--:|" * len(peers)]
    for what, test, key, digits, scale in ROWS:
        cells = []
        for peer in peers:
            values = samples(runs, peer, test, key).values()
            cells.append(f"{statistics.median(values) / scale:,.{digits}f}" if values else "–")
        if any(c != "–" for c in cells):
            out.append(f"| {what} | " + " | ".join(cells) + " |")
    out += ["", f"### Ratios to {BASE}, paired within a repetition, with 95 % intervals", "", "| | " + " | ".join(p for p in peers if p != BASE) + " |",
            "|---|" + "--:|" * (len(peers) - 1)]
    for what, test, key, *_ in ROWS:
        cells = []
        for peer in peers:
            found = paired(runs, peer, BASE, test, key) if peer != BASE else None
            if peer != BASE:
                cells.append(f"{found[0]:.2f} ({found[1]:.2f}–{found[2]:.2f})" if found else "–")
        if any(c != "–" for c in cells):
            out.append(f"| {what} | " + " | ".join(cells) + " |")
    return "\n".join(out)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        data = json.load(f)
    with open(sys.argv[2]) as f:
        text = f.read()
    if BEGIN not in text or END not in text:
        sys.exit(f"{sys.argv[2]} lacks the markers {BEGIN} and {END}")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    with open(sys.argv[2], "w") as f:
        f.write(f"{before}{BEGIN}\n{page(data)}\n\n{END}{after}")


if __name__ == "__main__":
    main()
