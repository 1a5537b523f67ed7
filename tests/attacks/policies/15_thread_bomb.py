"""Starts threads with tiny stacks until something stops it. Every thread takes a process number of the whole machine,
and there may be only 32768 of them."""

import threading

ENOUGH = 200


def attack() -> bool:
    threading.stack_size(32 << 10)
    stop = threading.Event()
    threads = []
    try:
        while len(threads) < ENOUGH:
            thread = threading.Thread(target=stop.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        pass
    stop.set()
    for thread in threads:
        thread.join()
    return len(threads) >= ENOUGH
