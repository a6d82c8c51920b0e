"""A server of Python's standard library for `cargo xtask siege`: `python3 served.py ADDRESS:PORT LOGFILE`.

Every request is answered with a mark that names its target. http.server leaves chunked bodies to its handler, so this one
reads them. A request whose body came to its end is written to the log as "complete", any other as "broken".
"""
import http.server
import sys

LISTEN, LOG = sys.argv[1:]
FILE = open(LOG, "a", buffering=1, encoding="latin-1")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def read_body(self):
        coding = self.headers.get("transfer-encoding")
        if coding is None:
            length = int(self.headers.get("content-length", "0"))
            return len(self.rfile.read(length)) == length
        if coding.strip().lower() != "chunked":
            return False
        while True:
            size = int(self.rfile.readline(1024).split(b";")[0], 16)
            if size == 0:
                while (line := self.rfile.readline(65536)) not in (b"\r\n", b""):
                    pass
                return line == b"\r\n"
            if len(self.rfile.read(size)) != size or self.rfile.readline(3) != b"\r\n":
                return False

    def serve(self):
        try:
            complete = self.read_body()
        except (ValueError, OSError):
            complete = False
        FILE.write(f"{'complete' if complete else 'broken'} {self.command} {self.path} 0\n")
        if not complete:
            self.close_connection = True
            return
        body = f"<served {self.path}>".encode("latin-1")
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = do_OPTIONS = do_PATCH = serve

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


host, port = LISTEN.rsplit(":", 1)
Server((host, int(port)), Handler).serve_forever()
