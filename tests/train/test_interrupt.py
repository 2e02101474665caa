"""Signals as requests."""

import os
import signal
import threading

import pytest

from vit_jax.train.interrupt import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_said_and_interrupts_nothing(number, capfd):
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        assert stop.signal == number
    assert "saving at the next step" in capfd.readouterr().err
    assert signal.getsignal(number) is before


def test_the_second_ctrl_c_interrupts_at_once():
    with StopRequest() as stop, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.signal == signal.SIGINT


def test_a_second_sigterm_changes_nothing():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal == signal.SIGTERM


def test_a_handler_that_python_did_not_install_is_no_obstacle(monkeypatch):
    with StopRequest():
        pass
    stop = StopRequest()
    with stop:
        stop._before[signal.SIGTERM] = None
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_outside_the_main_thread_handlers_stay():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def enter():
        with StopRequest():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
