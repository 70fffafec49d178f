# SPDX-License-Identifier: MIT
# Runs code in another interpreter of the same thread, in every way that this version has.
import sys
import textwrap

CODE = textwrap.dedent("""
    import sys

    def inside(n):
        total = 0
        for i in range(n):
            total += i
        sys.stdout.write(f"@inside {total}\\n")
        sys.stdout.flush()
        return total

    inside(5)
""")


def by_module():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    run = interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string
    interpreter = interpreters.create()
    run(interpreter, CODE)
    run(interpreter, CODE)
    report("by_module")
    interpreters.destroy(interpreter)


def by_test():
    try:
        import _testcapi
    except ImportError:
        return
    _testcapi.run_in_subinterp(CODE)
    report("by_test")


def report(what):
    sys.stdout.write(f"@{what}\n")
    sys.stdout.flush()


by_module()
by_test()
report("<module>")
