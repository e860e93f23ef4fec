"""Fills a fairgate with data of every kind and writes what its Redis then holds.

Called by scripts/fixture with the URL of the server, the socket of its Redis and a directory.

The file has one JSON value per line: first the states of the jobs as the API returned them, then
each key as [key, ttl in ms or -1, command that creates it, its arguments]. Characters of a text
stand for bytes, because stored data is not always UTF-8.
"""

import json
import socket
import sys
import urllib.error
import urllib.request

LATER = "2100-01-01T00:00:00Z"


class Api:
    def __init__(self, url):
        self.url = url

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error}: {error.read().decode()}")

    def post(self, path, body=None):
        return self.call("POST", "/ojs/v1" + path, {} if body is None else body)

    def put(self, path, body):
        return self.call("PUT", "/ojs/v1" + path, body)

    def enqueue(self, type, queue="default", tenant=None, **members):
        meta = {"tenant_id": tenant} if tenant else {}
        return self.post("/jobs", {"type": type, "args": [1], "meta": meta, "queue": queue, **members})["job"]["id"]

    def fetch(self, queue):
        return self.post("/workers/fetch", {"queues": [queue], "worker_id": "worker-1"})["jobs"][0]["id"]

    def nack(self, id, retryable):
        error = {"code": "broken", "message": "it broke", "retryable": retryable}
        self.post("/workers/nack", {"job_id": id, "error": error})


def fill(api):
    """Returns the ids of all jobs."""
    ids = []

    # Jobs in each state, of queue "states".
    for state in ("completed", "discarded", "retryable", "active"):
        ids.append(api.enqueue("state." + state, "states", options={"retry": {"max_attempts": 3, "initial_interval": "PT1H"}}))
        assert api.fetch("states") == ids[-1]
    api.post("/workers/ack", {"job_id": ids[0], "result": {"sum": 3}})
    api.nack(ids[1], False)
    api.nack(ids[2], True)
    api.put(f"/jobs/{ids[3]}/progress", {"percentage": 40})
    api.put(f"/jobs/{ids[3]}/checkpoint", {"state": {"page": 7}})
    ids.append(api.enqueue("state.cancelled", "states"))
    api.call("DELETE", "/ojs/v1/jobs/" + ids[-1])
    ids.append(api.enqueue("state.scheduled", "states", scheduled_at=LATER))
    ids.append(api.enqueue("state.pending", "states", options={"pending": True}))
    ids.append(api.enqueue("state.available", "states", priority=5, expires_at=LATER))
    ids.append(api.enqueue("state.unique", "states", unique={"keys": ["type", "args"]}))
    ids.append(api.post("/jobs", {"type": "state.large", "args": ["x" * 5000], "queue": "states"})["job"]["id"])

    # A rule with a weight of its own that is paused, so its jobs stay staged, for two tenants.
    rule = {"types": ["report.*"], "queue": "reports", "tenant_key": "meta.tenant_id", "weights": {"static": {"acme": 3}}}
    api.put("/admin/planner/reports", rule)
    api.post("/admin/planner/reports/pause")
    for tenant in ("noisy", "noisy", "noisy", "acme"):
        ids.append(api.enqueue("report.daily", "reports", tenant))
    ids.append(api.enqueue("report.daily", "reports", "acme", priority=3))

    # A limit whose only slot is taken, so that a job waits for it; settings of a tenant and a pool.
    for _ in range(2):
        ids.append(api.enqueue("call.api", "calls", rate_limit={"key": "api", "concurrency": 1}))
    assert api.fetch("calls") == ids[-2]
    api.post("/workers/fetch", {"queues": ["calls"], "worker_id": "worker-2"})
    api.put("/rate-limits/mail", {"concurrency": 2})
    api.put("/admin/tenants/acme", {"fairness_weight": 2, "limits": {"max_concurrency": 10, "max_queue_depth": 99}})
    ids.append(api.enqueue("call.tenant", "calls", "acme"))
    api.put("/admin/pools/fast", {"queues": ["fast"], "strategy": "strict", "concurrency": 4})
    api.put("/queues/calls/config", {"max_size": 1000})
    api.post("/queues/paused/pause")
    ids.append(api.enqueue("state.paused", "paused"))

    # A cron, a subscription, and a workflow whose first step is done.
    api.post("/cron", {"name": "nightly", "expression": "0 3 * * *", "job_template": {"type": "cron.nightly", "args": []}})
    api.post("/webhooks/subscriptions", {"url": "https://hooks.example.org/fairgate", "events": ["workflow.failed"]})
    steps = [{"type": "flow.first", "args": []}, {"type": "flow.second", "args": []}]
    api.post("/workflows", {"type": "chain", "name": "flow", "options": {"queue": "flow"}, "steps": steps})
    ids.append(api.fetch("flow"))
    api.post("/workers/ack", {"job_id": ids[-1], "result": 1})
    return ids


class Redis:
    def __init__(self, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.file = connection.makefile("rwb")

    def command(self, *words):
        encoded = [str(word).encode("latin-1") for word in words]
        parts = [b"*%d\r\n" % len(encoded)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
        self.file.write(b"".join(parts))
        self.file.flush()
        return self.reply()

    def reply(self):
        line = self.file.readline().rstrip(b"\r\n").decode("latin-1")
        kind, rest = line[0], line[1:]
        if kind == "$":
            text = None if rest == "-1" else self.file.read(int(rest) + 2)[:-2].decode("latin-1")
            return text
        if kind == "*":
            return [self.reply() for _ in range(int(rest))]
        if kind == "-":
            raise RuntimeError(rest)
        return int(rest) if kind == ":" else rest


def contents(redis, key):
    """Returns the command that creates a key, and its arguments."""
    kind = redis.command("TYPE", key)
    if kind == "string":
        return "SET", [redis.command("GET", key)]
    if kind == "hash":
        return "HSET", redis.command("HGETALL", key)
    if kind == "list":
        return "RPUSH", redis.command("LRANGE", key, 0, -1)
    if kind == "set":
        return "SADD", sorted(redis.command("SMEMBERS", key))
    if kind == "zset":
        pairs = redis.command("ZRANGE", key, 0, -1, "WITHSCORES")
        return "ZADD", [word for at in range(0, len(pairs), 2) for word in (pairs[at + 1], pairs[at])]
    # The last entry, to which other keys refer.
    entry, fields = redis.command("XREVRANGE", key, "+", "-", "COUNT", 1)[0]
    return "XADD", [entry, *fields]


def main(url, path, directory):
    api = Api(url)
    ids = fill(api)
    states = {id: api.call("GET", "/ojs/v1/jobs/" + id)["job"]["state"] for id in ids}
    redis = Redis(path)
    lines = [states]
    for key in sorted(redis.command("KEYS", "*")):
        lines.append([key, redis.command("PTTL", key), *contents(redis, key)])
    schema = redis.command("GET", "fg:{default}:schema")
    file = f"{directory}/schema-{schema}.jsonl"
    with open(file, "w", encoding="utf-8") as output:
        output.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"{file}: {len(states)} jobs, {len(lines) - 1} keys")


main(*sys.argv[1:])
