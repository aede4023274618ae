"""The store of finished builds, opened by many at once."""

import threading

from kernelbench.build_store import Store


def test_opening_the_store_while_other_builds_come_and_go_never_fails(tmp_path):
    store = Store(tmp_path / "cache")
    store.open()
    stop, failures = threading.Event(), []

    def build():
        while not stop.is_set():
            with store.workspace(None) as work:
                log = work.with_suffix(".log")
                log.write_text("compiling")
                log.unlink()

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
