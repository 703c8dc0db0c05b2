"""The part of Google Cloud Storage's XML API that a store needs, on this host: google.py PORT.

Written from https://cloud.google.com/storage/docs/xml-api/reference-headers: an object has a generation, a
new one each time that it is written, and x-goog-if-generation-match makes a write depend on it (0: there is none).
"""
import email.utils
import hashlib
import http.server
import sys
import threading
import urllib.parse

objects = {}    # "BUCKET/NAME" -> (bytes, generation, time)
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", found=None, length=None):
        self.send_response(status)
        if found:
            data, generation, time = found
            self.send_header("ETag", '"%s"' % hashlib.md5(data).hexdigest())
            self.send_header("x-goog-generation", str(generation))
            self.send_header("Last-Modified", time)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def name(self):
        return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path.lstrip("/"))

    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        with lock:
            if "list-type" in query:
                bucket, prefix = self.name().rstrip("/"), query.get("prefix", [""])[0]
                names = [n[len(bucket) + 1:] for n in objects if n.startswith(bucket + "/" + prefix)]
                rows = "".join(
                    "<Contents><Key>%s</Key><LastModified>2026-11-22T08:00:00.000Z</LastModified>"
                    '<ETag>"x"</ETag><Size>%d</Size></Contents>' % (n, len(objects[bucket + "/" + n][0]))
                    for n in sorted(names))
                return self.answer(200, ("<ListBucketResult>%s</ListBucketResult>" % rows).encode())
            found = objects.get(self.name())
        if not found:
            return self.answer(404)
        if self.headers.get("If-None-Match") == '"%s"' % hashlib.md5(found[0]).hexdigest():
            return self.answer(304, found=found)
        self.answer(200, found[0], found)

    def do_HEAD(self):
        found = objects.get(self.name())
        self.answer(200 if found else 404, found=found, length=len(found[0]) if found else 0)

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            before = objects.get(self.name())
            wanted = self.headers.get("x-goog-if-generation-match")
            if wanted is not None and int(wanted) != (before[1] if before else 0):
                return self.answer(412)
            generation = 1 + max((known[1] for known in objects.values()), default=0)
            objects[self.name()] = (data, generation, email.utils.formatdate(usegmt=True))
        self.answer(200, found=objects[self.name()])

    def do_DELETE(self):
        with lock:
            objects.pop(self.name(), None)
        self.answer(204)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
