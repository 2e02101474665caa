"""The progress bar and throughput."""

import io
import sys

from vit_jax.train import progress
from vit_jax.train.progress import Progress, Throughput

ROW = {
    "step": 12,
    "loss": 0.25,
    "learning_rate": 1e-3,
    "images_per_second": 1234.4,
}
FIGURES = "loss 0.2500, lr 1.00e-03, 1,234 images/s"


class Terminal(io.StringIO):
    """Standard error as a person has it."""

    def isatty(self):
        return True


def at_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def two_steps_from_ten():
    bar = Progress(total=20, enabled=True)
    bar.start(10)
    bar.advance()
    bar.show(ROW)
    bar.advance()
    return bar


def test_the_bar_shows_share_steps_times_loss_rate_and_speed(monkeypatch):
    terminal = at_a_terminal(monkeypatch)
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    bar = Progress(total=20, enabled=True)
    bar.start(10)
    for _ in range(2):
        now[0] += 3.0
        bar.show(ROW)
        bar.advance()
    bar.close()
    last = terminal.getvalue().split("\r")[-1]
    assert last.startswith("training  60%|")
    assert f"12/20 steps, 00:06 passed, 00:24 left, {FIGURES}" in last


def test_lines_stand_above_the_bar_which_is_drawn_again(monkeypatch):
    terminal = at_a_terminal(monkeypatch)
    bar = two_steps_from_ten()
    bar.say("step 12: accuracy 50%")
    bar.close()
    said, _, after = terminal.getvalue().partition("step 12: accuracy 50%\n")
    assert "training" in said
    assert FIGURES in after


def test_without_a_terminal_each_state_of_the_bar_is_a_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    bar = two_steps_from_ten()
    bar.say("a sentence")
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert "a sentence" in lines
    assert any("12/20 steps" in line and FIGURES in line for line in lines)
    assert not any("\r" in line for line in lines)


def test_a_bar_that_is_off_still_lets_sentences_through(capsys):
    bar = Progress(total=20, enabled=False)
    bar.start(0)
    bar.advance()
    bar.show(ROW)
    bar.say("a sentence")
    bar.close()
    assert capsys.readouterr().err == "a sentence\n"


def test_throughput_counts_since_its_restart(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    throughput = Throughput(batch_size=10)
    now[0] = 100.0
    throughput.restart()
    for _ in range(4):
        now[0] += 0.5
        throughput.step(waited=0.1)
    figures = throughput.report()
    assert figures["images_per_second"] == 20.0
    assert abs(figures["data_wait_share"] - 0.2) < 1e-9
