# SPDX-License-Identifier: MIT
"""Random sequences of instructions leave the same registers, flags and memory under the native engine as
natively, whether they are logged or only their inputs are; nothing that --verify compares differs, nor what is
run again.

    random_code.py TTQ [--seed N] [--sequences N]

A program is generated, assembled and run twice. Each sequence begins with random registers, and its
registers, flags and vector registers are written to the output after it; so is the memory it worked on.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

NAMES = {
    8: "rax rbx rcx rdx rsi rbp r8 r9 r10 r11 r12 r13".split(),
    4: "eax ebx ecx edx esi ebp r8d r9d r10d r11d r12d r13d".split(),
    2: "ax bx cx dx si bp r8w r9w r10w r11w r12w r13w".split(),
    1: "al bl cl dl sil bpl r8b r9b r10b r11b r12b r13b".split(),
}
SUFFIX = {8: "q", 4: "l", 2: "w", 1: "b"}
FUNCTIONS, APART = 600, 100
CONDITIONS = "o no b ae e ne be a s ns p np l ge le g".split()
with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:
    FLAGS = set(next((line for line in cpuinfo if line.startswith("flags")), "").split())


class Writer:
    """Chooses instructions. %rdi is the memory worked on, %r14 its middle, %r15 the output."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def register(self, size):
        return "%" + self.random.choice(NAMES[size])

    def memory(self):
        return "%d(%s)" % (self.random.randrange(0, 960), "%rdi") if self.random.random() < .6 else \
            "%d(%%r14)" % self.random.randrange(-480, 480)

    def vector(self, kind="xmm"):
        return "%%%s%d" % (kind, self.random.randrange(8))

    def immediate(self, size):
        return "$%d" % self.random.choice([0, 1, -1, 127, -128, self.random.randrange(-(1 << 8 * min(size, 4) - 1),
                                                                                       1 << 8 * min(size, 4) - 1)])

    def arithmetic(self):
        size = self.random.choice([1, 2, 4, 8, 8, 4])
        op = self.random.choice("add or adc sbb and sub xor cmp mov test".split())
        kind = self.random.randrange(5)
        a = self.register(size) if kind != 3 and kind != 4 else self.memory()
        b = {0: self.register(size), 1: self.memory(), 2: self.immediate(size), 3: self.register(size),
             4: self.immediate(size)}[kind]
        if op == "test" and kind == 1:
            a, b = b, a
        return f"{op}{SUFFIX[size]} {b}, {a}"

    def one(self):
        size = self.random.choice([1, 2, 4, 8])
        op = self.random.choice("inc dec neg not".split())
        return f"{op}{SUFFIX[size]} {self.random.choice([self.register(size), self.memory()])}"

    def shift(self):
        size = self.random.choice([1, 2, 4, 8])
        op = self.random.choice("shl shr sar rol ror rcl rcr".split())
        count = self.random.choice(["$%d" % self.random.randrange(0, 70), "%cl", "$1"])
        return f"{op}{SUFFIX[size]} {count}, {self.random.choice([self.register(size), self.memory()])}"

    def wide(self):
        size = self.random.choice([2, 4, 8])
        source = self.random.choice([self.register(size), self.memory()])
        to = self.register(size)
        op = self.random.choice(["imul", "cmov" + self.random.choice(CONDITIONS), "bsf", "bsr", "bt", "popcnt"])
        if op == "bt":
            op, source = self.random.choice(["bt", "bts", "btr", "btc"]), self.register(size)
            if self.random.random() < .5:  # the bit number reaches beyond the operand
                bit = self.random.choice(NAMES[8])
                return (f"movq ${self.random.randrange(-999, 2999)}, %{bit};"
                        f" {op}{SUFFIX[size]} %{NAMES[size][NAMES[8].index(bit)]}, {self.random.randrange(200, 960)}(%rdi)")
        return f"{op}{SUFFIX[size]} {source}, {to}"

    def extend(self):
        size = self.random.choice([1, 2])
        op = self.random.choice("sz")
        source = self.random.choice([self.register(size), self.memory()])
        return f"mov{op}{SUFFIX[size]}q {source}, {self.register(8)}"

    def other(self):
        r = self.register
        return self.random.choice([
            f"set{self.random.choice(CONDITIONS)} {self.random.choice([r(1), self.memory()])}",
            f"leaq {self.random.randrange(-99, 99)}({r(8)},{r(8)},{self.random.choice([1, 2, 4, 8])}), {r(8)}",
            f"leal 5({r(8)}), {r(4)}", f"leaw 7({r(8)}), {r(2)}",
            f"xchgq {r(8)}, {self.memory()}", f"xchgl {r(4)}, {r(4)}", f"lock xaddq {r(8)}, {self.memory()}",
            f"lock cmpxchgl {r(4)}, {self.memory()}", f"bswapq {r(8)}", "cqto", "cltq", "cwtl", "lahf", "cmc",
            f"pushq {self.memory()}; popq {r(8)}", f"pushq {r(8)}; popq {self.memory()}",
            f"pushw {r(2)}; popw {self.memory()}", f"mulq {r(8)}", f"imull {self.memory()}",
            f"movslq {r(4)}, {r(8)}", f"movabsq ${self.random.getrandbits(63)}, {r(8)}",
            f"shldq $7, {r(8)}, {self.memory()}", f"movb %ah, %bl", "addb %ch, %al", "movb $3, %dh",
            "pushq %rdi; pushq %rcx; movl $9, %ecx; rep stosb; popq %rcx; popq %rdi",
            "pushq %rdi; pushq %rcx; pushq %rsi; movq %r14, %rsi; movl $5, %ecx; rep movsl; popq %rsi; popq %rcx;"
            " popq %rdi",
            "pushq %rdi; pushq %rcx; movl $40, %ecx; repne scasb; popq %rcx; popq %rdi",
        ])

    def vectors(self):
        x, m = self.vector, self.memory
        choices = [f"movups {m()}, {x()}", f"movups {x()}, {m()}", f"paddd {x()}, {x()}", f"pxor {x()}, {x()}",
                   f"movq {x()}, {self.register(8)}", f"movq {self.register(8)}, {x()}", f"movd {x()}, {m()}",
                   f"movhps {x()}, {m()}", f"movlps {m()}, {x()}", f"pextrw $3, {x()}, {self.register(4)}",
                   f"pshufd $27, {x()}, {x()}", f"punpcklbw {x()}, {x()}", f"pmovmskb {x()}, {self.register(4)}",
                   f"cvtsi2sdq {self.register(8)}, {x()}", f"movnti {self.register(4)}, {m()}"]
        if "avx2" in FLAGS:
            y = lambda: self.vector("ymm")
            choices += [f"vmovdqu {m()}, {y()}", f"vmovdqu {y()}, {m()}", f"vpaddq {y()}, {y()}, {y()}",
                        f"vpxor {m()}, {y()}, {y()}", f"vextracti128 $1, {y()}, {m()}",
                        f"vpbroadcastb {m()}, {y()}", f"vpmovmskb {y()}, {self.register(4)}"]
            choices += [self.masked(), self.gather()]
        if {"avx512f", "avx512vl", "avx512bw", "avx512dq"} <= FLAGS:
            choices += [self.avx512() for _ in range(8)]
        choices += [f"maskmovdqu {x()}, {x()}"]
        if "bmi2" in FLAGS:
            r = lambda: self.register(8)
            choices += [f"andn {r()}, {r()}, {r()}", f"shlx {r()}, {m()}, {r()}", f"rorx $9, {r()}, {r()}",
                        f"mulx {m()}, {r()}, {r()}", f"pdep {r()}, {r()}, {r()}", f"blsr {r()}, {r()}"]
        return self.random.choice(choices)

    def masked(self):
        op = self.random.choice("vmaskmovps vmaskmovpd vpmaskmovd vpmaskmovq".split())
        kind = self.random.choice(["xmm", "ymm"])
        v = lambda: self.vector(kind)
        return f"{op} {v()}, {v()}, {self.memory()}" if self.random.random() < .6 else f"{op} {self.memory()}, {v()}, {v()}"

    def gather(self):
        index, mask, to = self.random.sample(range(8), 3)
        op, shift, i, v = self.random.choice([
            ("vpgatherdd", "vpsrld $24", "y", "y"), ("vgatherdps", "vpsrld $24", "x", "x"),
            ("vpgatherdq", "vpsrld $24", "x", "y"), ("vgatherdpd", "vpsrld $24", "x", "x"),
            ("vpgatherqq", "vpsrlq $56", "y", "y"), ("vgatherqpd", "vpsrlq $56", "x", "x"),
            ("vpgatherqd", "vpsrlq $56", "y", "x"), ("vgatherqps", "vpsrlq $56", "x", "x")])
        scale = self.random.choice([1, 2, 4, 8])
        return (f"{shift}, %{i}mm{index}, %{i}mm{index};"
                f" {op} %{v}mm{mask}, {self.random.randrange(512)}(%rdi,%{i}mm{index},{scale}), %{v}mm{to}")

    def avx512(self):
        """Under masks, also registers 16 to 31. Of an operand that is left out nothing is accessed."""
        kind = self.random.choice(["xmm", "ymm", "zmm"])
        v = lambda which=kind: "%%%s%d" % (which, self.random.choice([self.random.randrange(8), self.random.randrange(32)]))
        m, r = self.memory, self.register
        k = lambda: "%%k%d" % self.random.randrange(1, 8)
        under = lambda: self.random.choice(["", "{%s}" % k(), "{%s}" % k(), "{%s}{z}" % k()])
        to = lambda: "{%s}" % k()
        lanes = {"xmm": 4, "ymm": 8, "zmm": 16}[kind]
        half = {"xmm": "xmm", "ymm": "xmm", "zmm": "ymm"}[kind]
        choices = [f"kmovq {r(8)}, {k()}", f"kmovq {r(8)}, {k()}", f"kmovd {k()}, {r(4)}", f"kmovw {m()}, {k()}",
                   f"kmovq {k()}, {m()}", f"kandw {k()}, {k()}, {k()}", f"kortestw {k()}, {k()}",
                   f"vpcmpeqb {m()}, {v()}, {k()}{to()}", f"vptestmd {m()}, {v()}, {k()}",
                   f"vpaddd {m()}{{1to{lanes}}}, {v()}, {v()}{under()}", f"vpaddb {m()}, {v()}, {v()}{under()}",
                   f"vpandq {m()}, {v()}, {v()}{under()}", f"vpternlogd $105, {m()}, {v()}, {v()}{under()}",
                   f"vpmovzxbd {m()}, {v()}{under()}", f"vpbroadcastw {m()}, {v()}{under()}",
                   f"vcvtps2ph $0, {v()}, {m()}{to()}", f"vpcompressd {v()}, {m()}{to()}",
                   f"vpcompressq {v()}, {m()}{to()}", f"vpexpandd {m()}, {v()}{under()}", f"vpexpandq {m()}, {v()}{under()}",
                   f"vmovss {v('xmm')}, {m()}{to()}", f"vmovsd {m()}, {v('xmm')}{under()}"]
        for op in "vmovdqu8 vmovdqu16 vmovdqu32 vmovdqu64 vmovups vmovupd".split():
            choices += [f"{op} {v()}, {m()}{self.random.choice(['', to(), to()])}", f"{op} {m()}, {v()}{under()}"]
        for op in "vpmovdb vpmovqb vpmovsqd vpmovusdw vpmovwb vpmovqw".split():
            choices.append(f"{op} {v()}, {m()}{to()}")
        if kind != "xmm":
            choices += [f"vextracti32x4 $1, {v()}, {m()}{to()}", f"vextractf64x2 $0, {v()}, {m()}{to()}"]
        if "avx512_vbmi2" in FLAGS:
            choices += [f"vpcompressb {v()}, {m()}{to()}", f"vpcompressw {v()}, {m()}{to()}", f"vpexpandb {m()}, {v()}{under()}"]
        index, data = self.random.sample(range(32), 2)
        op, shift, i, d = self.random.choice([("dd", "vpsrld $24", kind, kind), ("dq", "vpsrld $24", half, kind),
                                              ("qq", "vpsrlq $56", kind, kind), ("qd", "vpsrlq $56", kind, half)])
        place = f"{self.random.randrange(512)}(%rdi,%{i}{index},{self.random.choice([1, 2])})"
        get = self.random.random() < .5
        element = (f"vpgather{op} {place}, %{d}{data}{to()}" if get else f"vpscatter{op} %{d}{data}, {place}{to()}")
        choices += [f"{shift}, %{i}{index}, %{i}{index}; {element}"] * 3
        return self.random.choice(choices)

    def indirect(self):
        """To a function, with flags that it may use; its return is indirect, too."""
        target = f"targets+{8 * self.random.randrange(FUNCTIONS)}(%rip)"
        register = "%" + self.random.choice(NAMES[8])
        return self.random.choice([f"call *{target}", f"movq {target}, {register}; call *{register}",
                                   f"leaq 2f(%rip), {register}; pushq {register}; jmp *{target}; 2:"])

    def functions(self):
        """What lies at multiples of 64 KiB apart has the low bits of its address in common."""
        kinds = [self.arithmetic, self.one, self.shift, self.wide, self.other]
        for k in range(FUNCTIONS):
            yield ".balign 65536" if k % APART == 0 else ".balign 128"
            yield f"function{k}:"
            for _ in range(self.random.randrange(4)):
                yield self.random.choice(kinds)()
            yield "ret"

    def sequence(self):
        for r in NAMES[8]:
            yield f"movabsq ${self.random.choice([self.random.getrandbits(63), self.random.getrandbits(5)])}, %{r}"
        flags = self.random.choice(["xorl %eax, %eax", "cmpl $-1, %ebx", "addb $127, %al", "stc"])
        yield flags
        kinds = [self.arithmetic] * 4 + [self.one, self.shift, self.wide, self.extend, self.other, self.other,
                                         self.vectors, self.vectors, self.indirect]
        for k in range(self.random.randrange(3, 9)):
            yield self.random.choice(kinds)()
            if self.random.random() < .2:
                yield f"j{self.random.choice(CONDITIONS)} 1f; {self.arithmetic()}; 1:"
        for k, r in enumerate(NAMES[8]):
            yield f"movq %{r}, {8 * k}(%r15)"
        yield "pushfq; popq 96(%r15)"
        for k in range(8):
            yield f"movups %xmm{k}, {104 + 16 * k}(%r15)"
        yield "leaq 232(%r15), %r15"

    def program(self, count):
        text = "\n".join(f"  {line}" for _ in range(count) for line in self.sequence())
        functions = "\n".join(f"  {line}" for line in self.functions())
        targets = "\n".join(f"  .quad function{k}" for k in range(FUNCTIONS))
        return f"""
.bss
.balign 64
work: .skip 4096
out: .skip {232 * count}
.data
targets:
{targets}
.text
.globl _start
_start:
  leaq work(%rip), %rdi
  leaq 512(%rdi), %r14
  leaq out(%rip), %r15
{text}
  movl $1, %eax; movl $1, %edi; leaq work(%rip), %rsi; movl ${4096 + 232 * count}, %edx; syscall
  movl $60, %eax; xorl %edi, %edi; syscall
{functions}
"""


def run(*command):
    """What it prints; ends the test where it fails, or a recording is not quiet."""
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if p.returncode != 0 or ("-q" in command and p.stderr):
        sys.exit(f"{command}: status {p.returncode}: {p.stderr.decode()}")
    return p.stdout


def compare(options, linking):
    with tempfile.TemporaryDirectory(prefix="ttq-random-") as scratch:
        place = pathlib.Path(scratch)
        (place / "code.s").write_text(Writer(options.seed).program(options.sequences), encoding="ascii")
        subprocess.run(["gcc", "-nostdlib", "-static", *linking, "-o", place / "code", place / "code.s"],
                       check=True, stderr=subprocess.DEVNULL)
        native = subprocess.run([place / "code"], stdout=subprocess.PIPE, check=True).stdout
        for way in ["--verify"], []:
            recording = place / ("logged" if way else "inputs")
            recorded = run(options.ttq, "record", "-q", "--engine=native", *way, "--block-size", "1", "-o", recording,
                           "--", place / "code")
            for k in range(options.sequences):
                begin = 4096 + 232 * k
                if native[begin:begin + 232] != recorded[begin:begin + 232]:
                    sys.exit(f"seed {options.seed}, {recording.name}: sequence {k} leaves other registers or flags")
            if native != recorded:
                sys.exit(f"seed {options.seed}, {recording.name}: other memory")
        run(options.ttq, "index", place / "inputs")
    print(f"{options.sequences} sequences equal")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ttq", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=1500)
    options = parser.parse_args()
    compare(options, [])
    compare(options, ["-Wl,-N"])  # code that may change: it can be written to


main()
