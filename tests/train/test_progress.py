"""The progress bar and throughput."""

from vit_jax.train.progress import Throughput


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
