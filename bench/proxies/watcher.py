#!/usr/bin/env python3
"""watcher.py HOST:PORT [--events]: scrapes /metrics of that admin server every second, and reads its /events meanwhile."""
import http.client, sys, threading, time


def ask(address, path):
    # The server may not be listening yet.
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("GET", path)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"{path} was answered with {answer.status}")
    return answer


def read(address):
    events = ask(address, "/events")
    while events.readline():
        pass


def main():
    address = sys.argv[1]
    if "--events" in sys.argv[2:]:
        threading.Thread(target=read, args=[address], daemon=True).start()
    while True:
        ask(address, "/metrics").read()
        time.sleep(1)


if __name__ == "__main__":
    main()
