"""A client in a closed loop: one request after the other, over kept connections that take turns. For the proxy each request is a
separate event, however slow it is, so that equal requests cause equal work."""
import re, socket, ssl, sys, time

CONNECTIONS, PATIENCE_S = 16, 120
FIELDS = {"user-agent": "loadgen", "accept": "*/*", "cookie": "session=0123456789abcdef"}
GRPC_BODY = b"\0\0\0\0\x05hello"


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def receive(connection):
    part = connection.recv(1 << 18)
    if not part:
        sys.exit("the proxy closed a connection")
    return part


class Client:
    """Kept connections of one kind, `Http1` or `Http2`."""

    def __init__(self, kind, *args, **options):
        self.connections = [kind(*args, **options) for _ in range(CONNECTIONS)]

    def send(self, requests, rate=None, pause_s=0):
        """Sends requests, at most `rate` a second, with a pause before each, and returns how long it took."""
        began = time.monotonic()
        for i in range(requests):
            time.sleep(max(pause_s, began + i / rate - time.monotonic()) if rate else pause_s)
            self.connections[i % CONNECTIONS].request()
        return time.monotonic() - began

    def close(self):
        for connection in self.connections:
            connection.socket.close()


class Http1:
    def __init__(self, port, path="/", fields=FIELDS, tls=False):
        self.socket = connect(port)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            self.socket = context.wrap_socket(self.socket)
        lines = [f"GET {path} HTTP/1.1", "Host: bench.local", *(f"{name.title()}: {value}" for name, value in fields.items())]
        self.text = "".join(f"{line}\r\n" for line in [*lines, ""]).encode()

    def request(self):
        self.write()
        self.read()

    def write(self):
        self.socket.sendall(self.text)

    def read(self):
        text = b""
        while b"\r\n\r\n" not in text:
            text += receive(self.socket)
        head, _, body = text.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the proxy answered: {head[:100]}")
        left = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)[1]) - len(body)
        while left > 0:
            left -= len(receive(self.socket))


def integer(value, bits, first):
    """An integer of HPACK (RFC 7541, 5.1) of this many bits, with these bits before it."""
    if value < (1 << bits) - 1:
        return bytes([first | value])
    out, value = [first | (1 << bits) - 1], value - (1 << bits) + 1
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Http2:
    """HTTP/2 without TLS, one request at a time on a connection. Each field is named once, and by its index from then on, as
    libraries do."""

    DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
    END_STREAM, ACK, END_HEADERS = 1, 1, 4
    # Entries of HPACK's own table come before those of a connection.
    FIRST_INDEX = 62
    # The head of a response begins with the index of `:status: 200`.
    STATUS_200 = 0x88

    def __init__(self, port, path="/", fields=FIELDS, body=b""):
        self.socket, self.buffer, self.stream, self.body = connect(port), b"", 1, body
        fields = {":method": "POST" if body else "GET", ":scheme": "http", ":authority": "bench.local", ":path": path, **fields}
        text = lambda it: integer(len(it), 7, 0) + it.encode()
        self.head = b"".join(b"\x40" + text(name) + text(value) for name, value in fields.items())
        self.head_again = b"".join(integer(self.FIRST_INDEX + i, 7, 0x80) for i in reversed(range(len(fields))))
        # The windows are as large as they may be (setting 4 is that of a stream): none is ever used up.
        largest = (1 << 31) - 1
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(self.SETTINGS, 0, 0, b"\0\x04" + largest.to_bytes(4, "big"))
                            + self.frame(self.WINDOW_UPDATE, 0, 0, (largest - 65535).to_bytes(4, "big")))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def take(self, length):
        while len(self.buffer) < length:
            self.buffer += receive(self.socket)
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def request(self):
        ends = 0 if self.body else self.END_STREAM
        out = self.frame(self.HEADERS, self.END_HEADERS | ends, self.stream, self.head)
        if self.body:
            out += self.frame(self.DATA, self.END_STREAM, self.stream, self.body)
        self.socket.sendall(out)
        self.head = self.head_again
        first, ended = True, False
        while not ended:
            head = self.take(9)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            payload = self.take(int.from_bytes(head[:3], "big"))
            if kind in (self.RESET, self.GOAWAY) or (kind == self.HEADERS and first and payload[0] != self.STATUS_200):
                sys.exit(f"the proxy answered with frame {kind}: {payload[:100]}")
            first = first and kind != self.HEADERS
            if kind in (self.SETTINGS, self.PING) and not flags & self.ACK:
                self.socket.sendall(self.frame(kind, self.ACK, 0, b"" if kind == self.SETTINGS else payload))
            ended = stream == self.stream and kind in (self.DATA, self.HEADERS) and flags & self.END_STREAM
        self.stream += 2
