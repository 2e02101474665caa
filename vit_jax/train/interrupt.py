"""Ctrl-C as a request that the loop answers between two steps."""

import signal
import threading
from types import FrameType


class StopRequest:
    """A context in which the first Ctrl-C only sets `requested`.

    The second one interrupts at once, as Python does by default. Outside the main
    thread, which alone may handle signals, it changes nothing.
    """

    def __init__(self):
        self.requested = False
        self._handles = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "StopRequest":
        if self._handles:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *exception) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
