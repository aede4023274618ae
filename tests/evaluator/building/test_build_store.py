"""The store of finished builds, opened by many at once."""

import subprocess
import sys
import threading

from kernel_evaluator.building.store import Store


def test_opening_the_store_while_other_builds_come_and_go_never_fails(tmp_path):
    store = Store(tmp_path / "cache")
    store.open()
    stop, failures = threading.Event(), []

    def build():
        while not stop.is_set():
            with store.workspace(None) as work:
                (work / "half").write_text("compiling")

    def open_again():
        try:
            for _ in range(300):
                store.open()
        except OSError as error:
            failures.append(error)

    builders = [threading.Thread(target=build) for _ in range(3)]
    for thread in builders:
        thread.start()
    openers = [threading.Thread(target=open_again) for _ in range(2)]
    for thread in openers:
        thread.start()
    for thread in openers:
        thread.join()
    stop.set()
    for thread in builders:
        thread.join()
    assert failures == []
    assert list((tmp_path / "cache/work").iterdir()) == []


def test_what_a_killed_builder_left_is_cleared_by_the_next_one(tmp_path):
    store = Store(tmp_path / "cache")
    store.open()
    program = (
        "import os, signal, pathlib; from kernel_evaluator.building.store import Store\n"
        f"with Store(pathlib.Path({str(tmp_path / 'cache')!r})).workspace(None) as work:\n"
        "    (work / 'half').write_text('compiling'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    assert len(list((tmp_path / "cache/work").iterdir())) == 1
    with store.workspace(None) as living:
        Store(tmp_path / "cache").open()
        assert list((tmp_path / "cache/work").iterdir()) == [living]
