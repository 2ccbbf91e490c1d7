"""What happens around the work: threads, signals, progress, panics, the command line, imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import World, make

import nextpair
from nextpair import _engine


@pytest.fixture(scope="module")
def large() -> World:
    rng = np.random.default_rng(0)
    shapes = ((3000, 256), (3000, 256), (60000, 256))
    return World(*(rng.standard_normal(shape, dtype=np.float32) for shape in shapes))


def test_many_threads_of_python_at_once(world: World) -> None:
    expected = {name: world.select(20, name) for name in nextpair.STRATEGIES}
    wrong: list[str] = []

    def work(name: str) -> None:
        for _ in range(5):
            if world.select(20, name, threads=2) != expected[name]:
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in nextpair.STRATEGIES for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_lock_of_python_is_free_meanwhile(large: World) -> None:
    worker = threading.Thread(target=lambda: large.select(10, threads=1))
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 20


def test_numbers_of_threads_are_checked(world: World) -> None:
    for threads in (0, 100000):
        with pytest.raises(nextpair.SettingError, match="^threads: "):
            world.select(3, threads=threads)


def test_a_function_hears_how_far_it_is(large: World) -> None:
    heard: list[tuple[str, int, int]] = []
    large.select(10, progress=lambda *said: heard.append(said), threads=1)
    assert {"thresholds", "scores"} & {phase for phase, _, _ in heard}
    assert all(0 <= done <= total for _, done, total in heard)


def test_a_function_that_fails_stops_the_work(large: World) -> None:
    class Enough(Exception):
        pass

    def listener(phase: str, done: int, total: int) -> None:
        raise Enough(phase)

    with pytest.raises(Enough):
        large.select(10, progress=listener, threads=1)


def test_bars_are_shown_where_somebody_sees_them(large: World, capfd: pytest.CaptureFixture[str]) -> None:
    large.select(10, threads=1)
    assert capfd.readouterr().err == "", "nobody sees this"
    large.select(10, progress=True, threads=1)
    assert "scores" in capfd.readouterr().err
    large.select(10, progress=False, threads=1)
    assert capfd.readouterr().err == ""
    with pytest.raises(nextpair.SettingError, match="^progress: "):
        large.select(10, progress=7)  # type: ignore[arg-type]


def test_bars_need_tqdm(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(world.select(3)) == 3
    with pytest.raises(nextpair.SettingError, match="^progress: a bar needs tqdm"):
        world.select(3, progress=True)


INTERRUPTED = """
import sys, time
import numpy as np, nextpair
rng = np.random.default_rng(0)
pool = rng.standard_normal((400000, 128), dtype=np.float32)
pairs = rng.standard_normal((20000, 128), dtype=np.float32)
def listener(phase, done, total):
    print("working", flush=True)
try:
    nextpair.select(pairs, pairs[::-1], pool, 10, sys.argv[1], progress=listener)
except KeyboardInterrupt:
    print("interrupted", flush=True)
picks = nextpair.select(pairs[:50], pairs[:50], pool[:100], 3, guard="off")
print("and alive", len(picks), flush=True)
"""


@pytest.mark.parametrize("name", ["hard-negative", "core-set", "herding", "novelty", "entropy", "typical"])
def test_ctrl_c_stops_the_work_and_nothing_else(name: str) -> None:
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, name], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [line for line in rest.splitlines() if line != "working"] == ["interrupted", "and alive 3"]


def test_panics_become_exceptions(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(nextpair.InternalError, match="mistake: .*work.rs.*on purpose.*report it at https://") as caught:
        _engine.panic_on_purpose((2, None))
    assert isinstance(caught.value, (nextpair.NextpairError, RuntimeError))
    assert capfd.readouterr().err == ""


def test_a_forked_process_selects_too(world: World) -> None:
    expected = world.select(5)
    child = os.fork()
    if child == 0:
        os._exit(0 if world.select(5) == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


UNTOUCHED = """
import os, signal, threading
before = (dict(os.environ), [signal.getsignal(number) for number in signal.valid_signals()], threading.active_count())
import numpy as np, nextpair
pairs = np.eye(5, dtype=np.float32)
nextpair.select(pairs, pairs, pairs, 2, guard="off")
after = (dict(os.environ), [signal.getsignal(number) for number in signal.valid_signals()], threading.active_count())
assert before == after
assert not {"pandas", "pyarrow", "tqdm", "torch", "sklearn", "skactiveml"} & set(__import__("sys").modules)
print(sum(1 for line in open("/proc/self/status") if line.startswith("SigCgt")) and open("/proc/self/status").read().split("SigCgt:")[1].split()[0])
"""


def test_the_process_is_left_alone() -> None:
    def caught(code: str) -> str:
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return run.stdout.strip()

    plain = "import numpy; print(open('/proc/self/status').read().split('SigCgt:')[1].split()[0])"
    assert caught(UNTOUCHED) == caught(plain), "no handler of a signal is added"


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, **options)


@pytest.fixture(params=["script", "module"])
def program(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    script = os.path.join(os.path.dirname(sys.executable), "nextpair")
    yield [script] if request.param == "script" else [sys.executable, "-m", "nextpair"]


def test_the_command_line_comes_with_it(program: list[str], tmp_path: Any) -> None:
    version = run(*program, "--version")
    assert version.returncode == 0 and version.stdout.startswith("nextpair 0.")
    wrong = run(*program, "select", "--colour", "red")
    assert wrong.returncode == 2 and "Usage: nextpair select" in wrong.stderr
    missing = run(*program, "inspect", "nowhere", cwd=tmp_path)
    assert missing.returncode == 2 and missing.stderr.startswith("error: ")
    assert run(*program, "example", "world", cwd=tmp_path).returncode == 0
    piped = run("sh", "-c", f"{' '.join(program)} help | head -1", cwd=tmp_path)
    assert piped.stdout == "Which unpaired item should we pay to pair next?\n" and piped.stderr == ""


def test_ctrl_c_ends_a_command(program: list[str], tmp_path: Any) -> None:
    command = [*program, "import", "scenes", "scenes", "--images", "1000000"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_it_is_imported_quickly() -> None:
    code = "import numpy, time; began = time.perf_counter(); import nextpair; print(time.perf_counter() - began)"
    times = [float(run(sys.executable, "-c", code).stdout) for _ in range(5)]
    assert min(times) < 0.1, times


def test_what_it_exports_is_there() -> None:
    assert all(hasattr(nextpair, name) for name in nextpair.__all__)
    errors = [getattr(nextpair, name) for name in nextpair.__all__ if name.endswith("Error")]
    assert all(issubclass(error, nextpair.NextpairError) for error in errors)


def test_worlds_of_the_tests_are_alike() -> None:
    assert all((a == b).all() for a, b in zip(make(), make(), strict=True))
