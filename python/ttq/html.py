def result(r): return "x"
def plain(r): return "x"
