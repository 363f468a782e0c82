"""A side of a comparison that counts its steps and says where it is in its case; told to, it ends before its time."""

from __future__ import annotations

import os
import signal
import sys

from benchmarks.learning.side import Meter, Talk, forget_peak, peak_mib, read_case


def main() -> None:
    talk, case = Talk(), read_case()
    print("not an answer")
    forget_peak()
    talk.say(ready=True)
    meter = Meter()
    for step in range(case["steps"]):
        talk.wait()
        if step == case["ends_at"]:
            if case.get("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit("out of rollouts")
        meter.start()
        held = bytearray(case["bytes"])
        held[::4096] = b"x" * len(held[::4096])
        meter.stop()
        talk.say(step=step, peak_mib=peak_mib(), **meter.take())


if __name__ == "__main__":
    main()
