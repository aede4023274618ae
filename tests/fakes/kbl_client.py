"""Sends a command to `fakes.kbl --serve`, with this process's folder, environment and output; ends as it ends."""

import marshal
import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOL_SOCKET, socket  # `socket` takes longer to load than all the rest
from array import array

connection = socket(AF_UNIX)
connection.connect(sys.argv[1])
asked = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": sys.argv[2:]}  # noqa: PTH109 - likewise
connection.sendmsg([marshal.dumps(asked)], [(SOL_SOCKET, SCM_RIGHTS, array("i", [1, 2]))])
answer = connection.recv(1)
sys.exit(answer[0] if answer else 255)
