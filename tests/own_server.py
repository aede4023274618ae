"""The evaluation server on a free port of this machine, with workers that judge nothing for real."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from pathlib import Path

import uvicorn
from kernel_evaluator.problems.problem_set import ProblemSet

from leaderboard.serve.app import ServerSettings, make_app
from leaderboard.serve.connections import server_config
from leaderboard.serve.keys import keyring_of
from leaderboard.serve.workers import WorkerDevice

WORKER = (sys.executable, str(Path(__file__).with_name("serve_worker.py")))


@contextlib.contextmanager
def serving(api_key="", keys=None, own_problems=False, **options):
    chosen = {
        "keyring": keyring_of(api_key, keys, own_problems=own_problems),
        "device": "cpu",
        "devices": [WorkerDevice(name="cpu", gpus=None)],
        "command": WORKER,
        "problem_set": ProblemSet(),
    }
    app = make_app(ServerSettings(**{**chosen, **options}))
    server = uvicorn.Server(server_config(app, port=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=30)


def wait_until_taken(client, ticket):
    """Wait until a device has taken a judgement, so that what is sent next comes into another batch."""
    while client.look(ticket.id).state == "queued":
        time.sleep(0.01)
