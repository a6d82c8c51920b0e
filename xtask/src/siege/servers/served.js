// A stock Node server for `cargo xtask siege`: `node served.js http|http2 ADDRESS:PORT LOGFILE`.
//
// Every answer has a mark that names the request's target. A request with a complete body is logged
// as "complete", any other as "broken". `/destroyed` aborts its response half-way.
"use strict";
const fs = require("node:fs");
const [protocol, listen, log] = process.argv.slice(2);
const [host, port] = listen.split(":");
const file = fs.openSync(log, "a");
const note = (outcome, request, size) => {
  fs.writeSync(file, `${outcome} ${request.method} ${request.url} ${size}\n`);
};

function serve(request, response) {
  let size = 0;
  let ended = false;
  request.on("data", (piece) => { size += piece.length; });
  request.on("error", () => {});
  response.on("error", () => {});
  request.on("end", () => {
    // Node's HTTP/2 also emits "end" for a stream that was reset.
    if (request.aborted || (request.stream && request.stream.aborted)) return;
    ended = true;
    note("complete", request, size);
    if (request.url === "/destroyed" && response.stream) {
      response.write("half", () => setTimeout(() => response.stream.destroy(), 20));
      return;
    }
    response.end(`<served ${request.url}>`);
  });
  request.on("close", () => { if (!ended) note("broken", request, size); });
}

const server = protocol === "http2"
  ? require("node:http2").createServer(serve)
  : require("node:http").createServer({ keepAliveTimeout: 60000 }, serve);
server.on("sessionError", () => {});
server.listen(Number(port), host);
