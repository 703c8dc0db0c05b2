"""Serves a blocklist over HTTPS as badly as servers do: feed_server.py FOLDER CERTIFICATE.

Writes its port to FOLDER/port. The path of a request says what comes: /good is FOLDER/good.
"""

import http.server
import pathlib
import ssl
import sys
import time

folder = pathlib.Path(sys.argv[1])
HTML = b"<!DOCTYPE html>\n<html><head><title>Not here</title></head><body>a@listed.test</body></html>\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        case = self.path.strip("/")
        body = HTML if case == "html" else b""
        if case in ("404", "410", "503"):
            self.answer(int(case), HTML)
        elif case == "good":
            body = (folder / case).read_bytes()
            tag = f'"{len(body)}"'
            if self.headers.get("If-None-Match") == tag:
                with open(folder / "unchanged", "a", encoding="ascii") as count:
                    count.write("304\n")
                self.send_response(304)
                self.end_headers()
            else:
                self.answer(200, body, ETag=tag)
        elif case == "downgrade":
            self.answer(302, b"", Location="http://127.0.0.1:9/good")
        elif case in ("slow", "huge"):
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"a@listed.test\n" * (1 if case == "slow" else 1000))
                    time.sleep(0.1 if case == "slow" else 0)
            except OSError:
                self.close_connection = True
        else:
            self.answer(200, body)

    def answer(self, code, body, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
(folder / "port.new").write_text(str(server.server_port), encoding="ascii")
(folder / "port.new").rename(folder / "port")
server.serve_forever()
