# SPDX-License-Identifier: MIT
#
# Exceptions raised, passed on and caught in every way there is. `raises.py trace` prints what
# sys.settrace says of run(), as JSON; without an argument it only runs.
import contextlib
import gc
import json
import sys
import threading


class Own(Exception):
    pass


class WithText(Exception):
    def __str__(self):
        return "text"


class Manager:
    def __init__(self, result):
        self.result = result

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.result


class Lazy:
    def __getattr__(self, name):
        raise AttributeError(name)

    @property
    def broken(self):
        raise ValueError("broken property")

    def __missing__(self, key):
        raise KeyError(key)


class Counter:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Noisy:
    def __del__(self):
        try:
            raise Own("in del")
        except Own:
            pass


def raiser(error):
    raise error


def through(depth, error):
    noisy = Noisy()  # noqa: F841: goes away while the exception passes
    if depth == 0:
        raiser(error)
    through(depth - 1, error)


def clauses(error):
    try:
        through(2, error)
    except (KeyError, OSError):
        return 1
    except ValueError as e:
        return e
    except Own:
        pass
    except:  # noqa: E722
        return 4


def again():
    try:
        raiser(Own("again"))
    except Own:
        raise


def logs_and_raises():
    try:
        again()
    except Own as e:
        e.noted = True
        raise


def raises_it_again():
    kept = None
    try:
        raiser(Own("kept"))
    except Own as e:
        kept = e
    for _ in range(3):
        try:
            raise kept
        except Own:
            pass


def chains():
    try:
        try:
            {}["missing"]
        except KeyError as e:
            raise Own("from") from e
    except Own as e:
        try:
            raise ValueError("while handling")
        except ValueError:
            pass
        try:
            raise Own("alone") from None
        except Own:
            pass
        return e


def finally_passes():
    try:
        try:
            raiser(Own("finally"))
        finally:
            sum([1, 2])
    except Own:
        return 1


def finally_swallows():
    while True:
        try:
            raiser(Own("swallowed"))
        finally:
            break


def managers():
    with Manager(True):
        raiser(Own("suppressed"))
    with contextlib.suppress(KeyError):
        {}["k"]
    try:
        with Manager(False), Manager(None):
            raiser(Own("through managers"))
    except Own:
        pass
    try:
        with by_generator():
            raiser(Own("into a generator"))
    except Own:
        pass
    with swallowing():
        raiser(Own("swallowed by a generator"))


@contextlib.contextmanager
def by_generator():
    try:
        yield
    finally:
        sum([])


@contextlib.contextmanager
def swallowing():
    try:
        yield
    except Own:
        pass


def from_c():
    for text, error in (("1 / 0", ZeroDivisionError), ("int('x')", ValueError), ("{}['k']", KeyError),
                        ("[][3]", IndexError), ("(1).nothing", AttributeError), ("nothing", NameError),
                        ("open('/nonexistent/file')", OSError), ("import nowhere.at.all", ImportError),
                        ("b'\\xff'.decode('utf-8')", UnicodeDecodeError), ("'\\u20ac'.encode('ascii')", UnicodeEncodeError),
                        ("a, b = 1, 2, 3", ValueError), ("len(3)", TypeError), ("assert 1 > 2, 'no'", AssertionError),
                        ("compile('a b', 'f.py', 'exec')", SyntaxError), ("del nowhere", NameError),
                        ("sys.exit(3)", SystemExit), ("raise KeyError('a', 'b')", KeyError)):
        try:
            exec(text, {"sys": sys})
        except error:
            pass


def repeats():
    found = 0
    for i in range(20):
        try:
            {}[i]
        except KeyError:
            found += 1
    return found


def swallowed_by_c():
    lazy = Lazy()
    hasattr(lazy, "nothing")
    getattr(lazy, "nothing", None)
    next(Counter(0), None)
    list(Counter(3))
    for _ in Counter(2):
        pass
    for _ in lazy_generator():
        pass
    try:
        lazy.broken
    except ValueError:
        pass
    return max(Counter(2), default=0)


def lazy_generator():
    yield from Counter(2)


def raising_generator():
    yield 1
    raise Own("in a generator")


def generators():
    try:
        for _ in raising_generator():
            pass
    except Own:
        pass
    g = catching_generator()
    next(g)
    g.throw(Own("thrown"))
    g.close()
    g = delegating()
    next(g)
    g.throw(Own("thrown to the inner one"))
    g.close()
    try:
        list(map(raiser, [Own("in map")]))
    except Own:
        pass
    try:
        sorted([3, 1], key=lambda x: 1 // (x - 1))
    except ZeroDivisionError:
        pass
    try:
        [1 // (x - 1) for x in (2, 1)]
    except ZeroDivisionError:
        pass
    try:
        list(stops())
    except RuntimeError:
        pass


def stops():
    yield 1
    raise StopIteration


def catching_generator():
    while True:
        try:
            yield
        except Own:
            pass


def delegating():
    yield from catching_generator()


async def inner():
    raise Own("in a coroutine")


async def outer():
    try:
        await inner()
    except Own:
        pass
    await inner()


def coroutines():
    try:
        outer().send(None)
    except Own:
        pass


def stored():
    kept = Own("of another function")

    def gives():
        try:
            raise kept
        except Own as e:
            return e

    try:
        raise gives()
    except Own:
        pass


def deep(n):
    return deep(n - 1) if n else raiser(WithText("deep", n))


def classes():
    try:
        class Body:
            raise Own("in a class")
    except Own:
        pass
    try:
        type("T", (), {"__init__": raiser})()
    except TypeError:
        pass
    try:
        deep(40)
    except WithText:
        pass
    try:
        raiser(Own)
    except Own:
        pass


def matching():
    def kind():
        try:
            raise KeyError("in the clause")
        except KeyError:
            return Own

    try:
        raiser(Own("matched by a call"))
    except kind():
        pass


def with_threads():
    def in_thread():
        try:
            raiser(Own("in a thread"))
        except Own:
            pass

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()


GROUPS = """
def groups():
    try:
        try:
            raise ExceptionGroup("several", [KeyError("k"), ValueError("v"), ExceptionGroup("more", [OSError(2, "no")])])
        except* KeyError:
            pass
    except* (ValueError, OSError):
        pass
"""


def run():
    gc.disable()  # it finds what the exceptions keep at other times in each run
    for error in (KeyError("key"), ValueError("value", 2), Own(), TypeError("type"), OSError(2, "no such")):
        clauses(error)
    with contextlib.suppress(Own):
        logs_and_raises()
    raises_it_again()
    chains()
    finally_passes()
    finally_swallows()
    managers()
    from_c()
    repeats()
    swallowed_by_c()
    generators()
    coroutines()
    stored()
    classes()
    matching()
    if sys.version_info >= (3, 11):
        scope = {}
        exec(compile(GROUPS, "groups.py", "exec"), scope)
        scope["groups"]()


def trace():
    import opcode
    raise_op = opcode.opmap["RAISE_VARARGS"]
    raises, by_traceback, waiting = [], {}, {}

    def entries(tb):
        out = []
        while tb is not None:
            out.append([tb.tb_frame.f_code.co_name, tb.tb_lineno])
            tb = tb.tb_next
        return out

    def tracer(frame, event, arg):
        if event == "line":
            for one in waiting.pop(id(frame), ()):
                one.append(frame.f_lineno)
                waiting.setdefault(id(frame), []).append(one)
        if event == "return":
            waiting.pop(id(frame), None)
        if event == "exception":
            kind, value, tb = arg
            # An iterator that has ended is noticed by a loop without an entry for it.
            if tb is None or tb.tb_frame is not frame:
                return tracer
            op = frame.f_code.co_code[frame.f_lasti]
            one = by_traceback.get(id(tb.tb_next)) if tb.tb_next is not None else None
            if one is None or op == raise_op:
                text = str(value)
                if kind.__str__ is WithText.__str__:
                    text = repr(value.args)
                one = {"type": kind.__name__, "message": text, "at": [frame.f_code.co_name, frame.f_lineno],
                       "file": frame.f_code.co_filename}
                raises.append(one)
            by_traceback[id(tb)] = one
            one["traceback"] = entries(tb)
            one["frame"] = frame.f_code.co_name
            one["lines"] = []
            waiting.setdefault(id(frame), []).append(one["lines"])
        return tracer

    sys.settrace(tracer)
    run()
    sys.settrace(None)
    json.dump(raises, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["trace"]:
        trace()
    else:
        run()
        with_threads()
