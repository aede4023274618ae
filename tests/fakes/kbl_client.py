"""Sends a command to `fakes.kbl --serve`, with this process's folder, environment and output; ends as it ends."""

import json
import os
import socket
import sys
from pathlib import Path

connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
asked = {"folder": str(Path.cwd()), "environment": dict(os.environ), "arguments": sys.argv[2:]}
socket.send_fds(connection, [json.dumps(asked).encode()], [1, 2])
answer = connection.recv(1)
sys.exit(answer[0] if answer else 255)
