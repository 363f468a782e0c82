"""Programs that a code reward must survive; each in both modes, where `{solve}` stands for the right solution."""

from __future__ import annotations

import tempfile
from pathlib import Path

LEFT = (
    Path(tempfile.gettempdir(), "left_by_bomb"),
    Path("/usr/lib/left_by_bomb"),
    Path("~root/.profile_of_bomb").expanduser(),
)
"""What would be there if a program of `SNOOPS` had got out."""

ENDLESS = {
    "loop": "while True: pass",
    "loop that catches": "while 1:\n    try:\n        while 1: pass\n    except BaseException: pass",
    "no alarm": "import signal\nsignal.alarm(0)\nfor s in range(1, 64):\n    try: signal.signal(s, signal.SIG_IGN)\n"
    "    except (OSError, ValueError): pass\nwhile True: pass",
    "sleep": "import time\ntime.sleep(3600)",
    "sleep apart": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(3600)\n"
    "    os._exit(0)\ntime.sleep(3600)",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "threads": "import threading\ndef spin():\n    while True: pass\n"
    "for _ in range(8): threading.Thread(target=spin).start()",
}
QUICK = {
    "memory": "x = [0] * 10**10",
    "memory by many": "import os\nfor _ in range(6):\n    if os.fork() == 0:\n"
    "        x = bytearray(b'1') * (200 << 20)\n        import time; time.sleep(60)\nfor _ in range(6): os.wait()",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "segfault": "import ctypes\nctypes.string_at(0)",
    "output": "import sys\nwhile True: sys.stdout.write('x' * 65536)",
    "output to errors": "import sys\nfor _ in range(10000): sys.stderr.write('x' * 65536)",
    "equal to all": "class E:\n    def __eq__(self, other): return True\n    def __str__(self): return ''\n"
    "def solve(a, b): return E()\nprint(E())",
    "exit at once": "import os\nos._exit(0)",
    "exit": "import sys\nsys.exit(0)",
    "marker": "print('OK'); print('PASSED'); print('{\"passed\": true}'); print('1.0')\n"
    "def solve(a, b): return 'PASSED'",
    "fork bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "many files": "for i in range(100000): open(f'f{i}', 'w').close()",
    "large file": "with open('big', 'wb') as f:\n    for _ in range(1000): f.write(b'x' * (1 << 20))",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 2).send(b'caught')",
    "socket beyond": "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)",
    "patched harness": "import json, builtins, os, sys\njson.dump = lambda value, out: out.write('null')\n"
    "json.dumps = lambda *a: 'null'\nbuiltins.open = None\nbuiltins.len = lambda x: 0\nsys.exit = lambda *a: None\n"
    "os._exit = lambda *a: None\ndef solve(a, b): return None",
    "raises": "raise ValueError",
    "raises at exit": "import atexit\natexit.register(lambda: 1 / 0)\nprint('nothing')\ndef solve(a, b): return 0",
    "syntax": "def (",
    "null byte": "x = 1\0",
    "lone surrogate": "print('\ud800')",
    "not json": "def solve(a, b): return {1, 2}\nprint('[1, 2')",
    "not a number": "def solve(a, b): return float('nan')\nprint('NaN')",
    "nested": "x = []\nfor _ in range(900): x = [x]\ndef solve(a, b): return x\nprint('[' * 100000)",
    "escape": "import ctypes\nlibc = ctypes.CDLL(None)\nassert libc.unshare(0x10000000) == -1\n"
    "assert libc.mount(b'none', b'/', None, 0, None) == -1\nassert libc.ptrace(16, 1, 0, 0) == -1\nopen('/proc/1/mem')",
}
SNOOPS = {
    "proc": "import glob\nprint(open('/proc/1/environ').read(), glob.glob('/proc/*/cmdline'))",
    "parent": "import os\nprint(os.readlink(f'/proc/{os.getppid()}/exe'))",
    "test file": "print(open({secret!r}).read())",
    "descriptors": "import os\nprint([os.read(fd, 10**6) for fd in range(3, 256)])",
    "package": "open({package!r}, 'a').write('# was here')",
    "home": "import os\nopen(os.path.expanduser('~root/.profile_of_bomb'), 'w')",
    "tmp": f"open({str(LEFT[0])!r}, 'w').write('x')\nopen({str(LEFT[1])!r}, 'w').write('x')",
    "remount": "import os\nos.symlink('/sandbox', 'x')\nopen('x/inner.py', 'a').write('x')",
}
