# SPDX-License-Identifier: MIT
# An object that one thread makes and another frees. What a weak reference says of it is printed.
import sys
import threading
import weakref


class Box:
    pass


def make():
    return Box()


def keep(box, kept, taken, dropped):
    for _ in range(3):
        kept.append(box)
    del box
    taken.set()
    dropped.wait()


def empty(kept):
    kept.clear()


def start(target, *args):
    thread = threading.Thread(target=target, args=args)
    thread.start()
    return thread


def say(box, references):
    sys.stdout.write("gone\n" if box() is None else f"alive {references}\n")
    sys.stdout.flush()


def main():
    box, kept, taken, dropped = make(), [], threading.Event(), threading.Event()
    print(hex(id(box)), flush=True)
    weak = weakref.ref(box)
    keeper = start(keep, box, kept, taken, dropped)
    taken.wait()
    del box
    dropped.set()
    keeper.join()
    del keeper
    say(weak, len(kept))
    start(empty, kept).join()
    say(weak, len(kept))


main()
