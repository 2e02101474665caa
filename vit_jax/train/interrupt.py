"""Ctrl-C and SIGTERM as requests that the loop answers between two steps."""

import os
import signal
import threading
from types import FrameType

# SIGTERM is what schedulers send, and TPU VMs before they are taken away.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTED = {
    signal.SIGINT: b"\nCtrl-C: saving at the next step; again to end at once\n",
    signal.SIGTERM: b"\nSIGTERM: saving at the next step\n",
}


class StopRequest:
    """A context in which the first Ctrl-C or SIGTERM only sets `signal`.

    The second Ctrl-C interrupts at once, as Python does by default; a second SIGTERM
    changes nothing, since a save is under way. Outside the main thread, which alone may
    handle signals, the context changes nothing.

    Attributes:
      signal: number of the first signal that came, 0 before.
    """

    def __init__(self):
        self.signal = 0
        self._handles = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "StopRequest":
        if self._handles:
            self._before = {n: signal.signal(n, self._note) for n in _SIGNALS}
        return self

    def __exit__(self, *exception) -> None:
        if self._handles:
            for number, handler in self._before.items():
                # None stands for a handler that Python didn't install, such as that
                # of jax.distributed, and can't be put back.
                signal.signal(number, handler or signal.SIG_DFL)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal = number
            # Not print: the signal may have come in the middle of one.
            os.write(2, _NOTED[number])
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
