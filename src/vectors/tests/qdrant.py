"""Serves the part of Qdrant's REST API that svcfs uses.

Requests are checked by the models that Qdrant generates from its OpenAPI description, which refuse unknown fields, and
carried out by the engine that `qdrant-client` contains. Prints its port and serves until its input ends.
"""

import json
import os
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from qdrant_client import QdrantClient
from qdrant_client.http import models

# The engine has no indexes on payloads and says so.
warnings.filterwarnings("ignore", "Payload indexes")
ENGINE = QdrantClient(":memory:")
LOCK = threading.Lock()


class Refusal(Exception):
    def __init__(self, status, message):
        self.status, self.message = status, message


def respond(method, collection, action, body):
    exists = ENGINE.collection_exists(collection)
    if (method, action) == ("PUT", ""):
        if exists:
            raise Refusal(409, f"Wrong input: Collection `{collection}` already exists!")
        wanted = models.CreateCollection.model_validate(body)
        return ENGINE.create_collection(
            collection, vectors_config=wanted.vectors, quantization_config=wanted.quantization_config
        )
    if (method, action) == ("DELETE", ""):
        return ENGINE.delete_collection(collection)
    if not exists:
        raise Refusal(404, f"Not found: Collection `{collection}` doesn't exist!")
    match method, action:
        case "GET", "":
            return ENGINE.get_collection(collection).model_dump(mode="json")
        case "PUT", "index":
            wanted = models.CreateFieldIndex.model_validate(body)
            return ENGINE.create_payload_index(collection, wanted.field_name, wanted.field_schema)
        case "PUT", "points":
            points = models.PointsList.model_validate(body).points
            size = ENGINE.get_collection(collection).config.params.vectors.size
            for point in points:
                if len(point.vector) != size:
                    raise Refusal(400, f"Wrong input: Vector dimension error: expected dim: {size}, got {len(point.vector)}")
            return ENGINE.upsert(collection, points)
        case "POST", "points/delete":
            return ENGINE.delete(collection, models.PointIdsList.model_validate(body))
        case "POST", "points/query":
            wanted = models.QueryRequest.model_validate(body)
            found = ENGINE.query_points(
                collection,
                query=wanted.query,
                query_filter=wanted.filter,
                limit=wanted.limit,
                with_payload=wanted.with_payload,
            )
            return {"points": [{"id": p.id, "version": 0, "score": p.score} for p in found.points]}
    raise Refusal(404, "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_request(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            if self.headers.get("api-key") != "secret-key":
                raise Refusal(401, "Must provide an API key or an Authorization bearer token")
            url = urlsplit(self.path)
            if not set(parse_qs(url.query)) <= {"wait"}:
                raise Refusal(400, "unknown parameter")
            root, collections, collection, *action = url.path.split("/")
            if (root, collections) != ("", "collections"):
                raise Refusal(404, "")
            with LOCK:
                result = respond(self.command, collection, "/".join(action), json.loads(body) if body else None)
            if hasattr(result, "model_dump"):
                result = result.model_dump(mode="json")
            self.reply(200, {"result": result, "status": "ok", "time": 0.001})
        except Refusal as refusal:
            self.reply(refusal.status, {"status": {"error": refusal.message}, "time": 0.001})
        except ValueError as error:
            self.reply(400, {"status": {"error": f"Format error in JSON body: {error}"}, "time": 0.001})

    do_GET = do_PUT = do_POST = do_DELETE = handle_request

    def reply(self, status, value):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


SERVER = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(SERVER.server_address[1], flush=True)
threading.Thread(target=SERVER.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
