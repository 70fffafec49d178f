# SPDX-License-Identifier: MIT
#
# Instructions that instruction_effects_test.cc executes one by one. Each names its operands by
# registers that point to memory of the test's (all but %rcx, a small number); `I` puts the code, its
# end and its text into the table that begins at `ttq_instructions`.

        .section .data.rel.ro.ttq_table, "aw"
        .globl ttq_instructions
ttq_instructions:
        .text

        .macro I text:vararg
        .text
771:    \text
772:
        .section .rodata.ttq_text, "a"
773:    .asciz "\text"
        .section .data.rel.ro.ttq_table, "aw"
        .quad 771b, 772b, 773b
        .text
        .endm

        # General registers.
        I movq %rax, %rbx
        I movl %eax, %ebx
        I movw %ax, %bx
        I movb %al, %bh
        I movq %rax, (%rdi)
        I movl %eax, 8(%rdi, %rcx, 4)
        I movb %ah, (%rdi)
        I movq (%rdi), %rax
        I movb (%rdi), %al
        I movw $5, (%rdi)
        I movzbl (%rdi), %eax
        I movslq (%rdi), %rax
        I movbel %eax, (%rdi)
        I movbel (%rdi), %eax
        I movntiq %rax, (%rdi)
        I leaq 8(%rdi, %rcx, 4), %rax
        I xorl %eax, %eax
        I xorl %eax, %ebx
        I subq %rbx, %rbx
        I sbbl %eax, %eax
        I addq %rax, (%rdi)
        I addq (%rdi), %rax
        I adcl $1, (%rdi)
        I incl (%rdi)
        I negq (%rdi)
        I notb (%rdi)
        I lock addl %eax, (%rdi)
        I cmpq %rax, (%rdi)
        I cmpb $1, (%rdi)
        I cmpq (%rdi), %rax
        I testl %eax, (%rdi)
        I testb $1, (%rdi)
        I btq %rcx, (%rdi)
        I btsl $3, (%rdi)
        I btrl $3, %eax
        I xchgq %rax, (%rdi)
        I xchgq %rax, %rbx
        I xaddl %eax, (%rdi)
        I cmpxchgq %rbx, (%rdi)
        I lock cmpxchgl %ebx, (%rdi)
        I cmpxchg8b (%rdi)
        I cmpxchg16b (%rdi)
        I shll %cl, (%rdi)
        I rorq $3, (%rdi)
        I shldq $3, %rax, (%rdi)
        I shldq %cl, %rax, %rbx
        I sete (%rdi)
        I setb %al
        I cmoveq (%rdi), %rax
        I cmovel %ebx, %eax
        I mulq (%rdi)
        I mulb %ch
        I imulq (%rdi)
        I imulq (%rdi), %rax
        I imulq $3, (%rdi), %rax
        I mulxq (%rdi), %rax, %rbx
        I cqto
        I cltq
        I cltd
        I cbtw
        I bswapq %rax
        I bsfq (%rdi), %rax
        I popcntq (%rdi), %rax
        I lzcntq (%rdi), %rax
        I andnq (%rdi), %rax, %rbx
        I blsrq (%rdi), %rax
        I bextrq %rbx, (%rdi), %rax
        I pextq (%rdi), %rax, %rbx
        I shlxq %rcx, (%rdi), %rax
        I rorxq $3, (%rdi), %rax
        I adcxq (%rdi), %rax
        I crc32q (%rdi), %rax
        I lahf
        I sahf
        I cmc
        I nopw (%rdi)
        I prefetcht0 (%rdi)

        # The stack and jumps.
        I pushq %rax
        I pushq (%rdi)
        I pushq $5
        I pushw %ax
        I popq %rax
        I popq (%rdi)
        I popq 8(%rsp)
        I pushfq
        I popfq
        I leave
        I enter $32, $0
        I call 772f
        I call *%rax
        I call *(%rdi)
        I ret
        I ret $8
        I jmp *%rax
        I jmp *(%rdi)
        I je 772f
        I jrcxz 772f
        I loop 772f

        # Strings.
        I movsb
        I movsq
        I rep movsb
        I rep movsq
        I stosb
        I rep stosq
        I lodsb
        I lodsq
        I movsl
        I stosl
        I lodsl
        I scasl
        I scasb
        I repne scasb
        I cmpsb
        I cmpsl
        I repe cmpsb
        I xlatb

        # x87.
        I flds (%rdi)
        I fldl (%rdi)
        I fldt (%rdi)
        I fildll (%rdi)
        I fsts (%rdi)
        I fstpl (%rdi)
        I fstpt (%rdi)
        I fistl (%rdi)
        I fistpll (%rdi)
        I fisttpll (%rdi)
        I fbstp (%rdi)
        I fadds (%rdi)
        I fcoms (%rdi)
        I fnstcw (%rdi)
        I fnstsw (%rdi)
        I fnstsw %ax
        I fnstenv (%rdi)
        I fnsave (%rdi)

        # State.
        I stmxcsr (%rdi)
        I vstmxcsr (%rdi)
        I fxsave (%rdi)
        I xsave (%rdi)
        I xsavec (%rdi)
        I xgetbv

        # SSE.
        I movaps %xmm0, (%rdi)
        I movapd %xmm0, (%rdi)
        I movups %xmm0, (%rdi)
        I movupd %xmm0, (%rdi)
        I movdqa %xmm0, (%rdi)
        I movdqu %xmm0, (%rdi)
        I movntps %xmm0, (%rdi)
        I movntpd %xmm0, (%rdi)
        I movntdq %xmm0, (%rdi)
        I movss %xmm0, (%rdi)
        I movsd %xmm0, (%rdi)
        I movq %xmm0, (%rdi)
        I movd %xmm0, (%rdi)
        I movlps %xmm0, (%rdi)
        I movhps %xmm0, (%rdi)
        I movlpd %xmm0, (%rdi)
        I movhpd %xmm0, (%rdi)
        I movq %mm0, (%rdi)
        I movntq %mm0, (%rdi)
        I movd %mm0, (%rdi)
        I maskmovdqu %xmm1, %xmm0
        I maskmovq %mm1, %mm0
        I pextrb $1, %xmm0, (%rdi)
        I pextrw $1, %xmm0, (%rdi)
        I pextrd $1, %xmm0, (%rdi)
        I pextrq $1, %xmm0, (%rdi)
        I extractps $1, %xmm0, (%rdi)
        I pextrw $1, %xmm0, %eax
        I movaps (%rdi), %xmm0
        I movups (%rdi), %xmm0
        I movdqu (%rdi), %xmm0
        I lddqu (%rdi), %xmm0
        I movntdqa (%rdi), %xmm0
        I movss (%rdi), %xmm0
        I movsd (%rdi), %xmm0
        I movq (%rdi), %xmm0
        I movd (%rdi), %xmm0
        I movlps (%rdi), %xmm0
        I movhps (%rdi), %xmm0
        I movddup (%rdi), %xmm0
        I movss %xmm1, %xmm0
        I movsd %xmm1, %xmm0
        I movq %xmm1, %xmm0
        I movaps %xmm1, %xmm0
        I movhlps %xmm1, %xmm0
        I movlhps %xmm1, %xmm0
        I movd %eax, %xmm0
        I movq %rax, %xmm0
        I movd %xmm0, %eax
        I movq %xmm0, %rax
        I movmskps %xmm0, %eax
        I pmovmskb %xmm0, %eax
        I pmovzxbw (%rdi), %xmm0
        I pinsrb $1, (%rdi), %xmm0
        I pinsrw $1, %eax, %xmm0
        I pinsrq $1, (%rdi), %xmm0
        I insertps $0x10, (%rdi), %xmm0
        I pxor %xmm0, %xmm0
        I pxor %xmm1, %xmm0
        I xorps (%rdi), %xmm0
        I paddd (%rdi), %xmm0
        I pcmpeqb %xmm0, %xmm0
        I pcmpeqb (%rdi), %xmm0
        I pshufd $0x1b, (%rdi), %xmm0
        I pshufb (%rdi), %xmm0
        I palignr $4, (%rdi), %xmm0
        I ptest (%rdi), %xmm0
        I pcmpistri $0, (%rdi), %xmm0
        I pcmpestri $0, (%rdi), %xmm0
        I pcmpistrm $0, (%rdi), %xmm2
        I addss (%rdi), %xmm0
        I sqrtss %xmm1, %xmm0
        I sqrtps %xmm1, %xmm0
        I cvtsi2sdq (%rdi), %xmm0
        I cvtsi2sdl %eax, %xmm0
        I cvttsd2siq (%rdi), %rax
        I cvtps2pd (%rdi), %xmm0
        I cvtss2sd %xmm1, %xmm0
        I ucomisd (%rdi), %xmm0
        I comiss %xmm1, %xmm0
        I cmpltps (%rdi), %xmm0
        I cmpltsd (%rdi), %xmm0
        I pblendvb %xmm0, (%rdi), %xmm1
        I blendps $3, (%rdi), %xmm1
        I aesenc (%rdi), %xmm0
        I pclmulqdq $0, (%rdi), %xmm0
        I sha1nexte (%rdi), %xmm0
        I sha256rnds2 %xmm0, (%rdi), %xmm1

        # AVX.
        I vmovaps %ymm0, (%rdi)
        I vmovapd %ymm0, (%rdi)
        I vmovups %ymm0, (%rdi)
        I vmovupd %ymm0, (%rdi)
        I vmovdqa %ymm0, (%rdi)
        I vmovdqu %ymm0, (%rdi)
        I vmovdqu %xmm0, (%rdi)
        I vmovntps %ymm0, (%rdi)
        I vmovntpd %ymm0, (%rdi)
        I vmovntdq %ymm0, (%rdi)
        I vmovss %xmm0, (%rdi)
        I vmovsd %xmm0, (%rdi)
        I vmovq %xmm0, (%rdi)
        I vmovd %xmm0, (%rdi)
        I vmovlps %xmm0, (%rdi)
        I vmovhps %xmm0, (%rdi)
        I vmovlpd %xmm0, (%rdi)
        I vmovhpd %xmm0, (%rdi)
        I vpextrb $1, %xmm0, (%rdi)
        I vpextrw $1, %xmm0, (%rdi)
        I vpextrd $1, %xmm0, (%rdi)
        I vpextrq $1, %xmm0, (%rdi)
        I vextractps $1, %xmm0, (%rdi)
        I vextractf128 $1, %ymm0, (%rdi)
        I vextracti128 $1, %ymm0, (%rdi)
        I vmaskmovps %ymm0, %ymm1, (%rdi)
        I vmaskmovpd %ymm0, %ymm1, (%rdi)
        I vpmaskmovd %ymm0, %ymm1, (%rdi)
        I vpmaskmovq %ymm0, %ymm1, (%rdi)
        I vmaskmovps (%rdi), %ymm1, %ymm0
        I vmaskmovpd (%rdi), %ymm1, %ymm0
        I vpmaskmovd (%rdi), %ymm1, %ymm0
        I vpmaskmovq (%rdi), %ymm1, %ymm0
        I vmaskmovdqu %xmm1, %xmm0
        I vcvtps2ph $0, %ymm0, (%rdi)
        I vcvtps2ph $0, %xmm0, %xmm1
        I vmovdqu (%rdi), %ymm0
        I vmovups (%rdi), %ymm0
        I vmovntdqa (%rdi), %ymm0
        I vlddqu (%rdi), %ymm0
        I vmovss (%rdi), %xmm0
        I vmovss %xmm1, %xmm2, %xmm0
        I vmovsd (%rdi), %xmm0
        I vmovq (%rdi), %xmm0
        I vmovlps (%rdi), %xmm1, %xmm0
        I vmovhps (%rdi), %xmm1, %xmm0
        I vmovdqa %ymm1, %ymm0
        I vbroadcastss (%rdi), %ymm0
        I vbroadcastf128 (%rdi), %ymm0
        I vpbroadcastb (%rdi), %ymm0
        I vpbroadcastb %xmm1, %ymm0
        I vinserti128 $1, (%rdi), %ymm1, %ymm0
        I vpinsrb $1, (%rdi), %xmm1, %xmm0
        I vpmovzxbw (%rdi), %ymm0
        I vpmovsxbd (%rdi), %ymm0
        I vpxor %xmm0, %xmm0, %xmm0
        I vpxor %ymm1, %ymm1, %ymm0
        I vpxor (%rdi), %ymm1, %ymm0
        I vxorps %ymm1, %ymm2, %ymm0
        I vpaddd (%rdi), %ymm1, %ymm0
        I vpcmpeqb (%rdi), %ymm1, %ymm0
        I vpcmpeqd %ymm0, %ymm0, %ymm0
        I vpminub (%rdi), %ymm1, %ymm0
        I vpmovmskb %ymm0, %eax
        I vptest (%rdi), %ymm0
        I vperm2i128 $0x21, (%rdi), %ymm1, %ymm0
        I vpermd (%rdi), %ymm1, %ymm0
        I vpermq $1, (%rdi), %ymm0
        I vpblendvb %ymm2, (%rdi), %ymm1, %ymm0
        I vfmadd213ps (%rdi), %ymm1, %ymm0
        I vfmadd231sd (%rdi), %xmm1, %xmm0
        I vsqrtsd (%rdi), %xmm1, %xmm0
        I vcvtsi2sdl (%rdi), %xmm1, %xmm0
        I vcvttss2si (%rdi), %eax
        I vucomiss (%rdi), %xmm0
        I vpcmpistri $0, (%rdi), %xmm0
        I vzeroupper
        I vtestps (%rdi), %ymm0
        I vpgatherdd %ymm2, (%rdi, %ymm3, 1), %ymm0

        # AVX-512.
        I vmovdqu64 %zmm0, (%rdi)
        I vmovdqu64 %ymm16, (%rdi)
        I vmovdqu8 %ymm16, (%rdi)
        I vmovdqu16 %zmm0, (%rdi)
        I vmovdqu32 %xmm16, (%rdi)
        I vmovdqa64 %zmm0, (%rdi)
        I vmovdqa32 %zmm0, (%rdi)
        I vmovups %zmm0, (%rdi)
        I vmovapd %zmm0, (%rdi)
        I vmovntdq %zmm0, (%rdi)
        I vmovdqu64 %zmm0, (%rdi){%k1}
        I vmovdqu8 %ymm0, (%rdi){%k1}
        I vmovups %zmm0, (%rdi){%k1}
        I vmovdqa32 %ymm0, (%rdi){%k1}
        I vmovss %xmm0, (%rdi){%k1}
        I vmovdqu64 (%rdi), %zmm0
        I vmovdqu8 (%rdi), %ymm16
        I vmovdqu64 (%rdi), %zmm0{%k1}{z}
        I vmovdqu64 (%rdi), %zmm0{%k1}
        I vpmovdb %zmm0, (%rdi)
        I vpmovqd %zmm0, (%rdi){%k1}
        I vpmovusdw %ymm0, (%rdi)
        I vpmovwb %ymm0, (%rdi)
        I vpmovdb %zmm0, %xmm1
        I vextracti32x4 $1, %zmm0, (%rdi)
        I vextracti64x4 $1, %zmm0, (%rdi)
        I vextractf64x2 $1, %zmm0, (%rdi)
        I vextractf32x8 $1, %zmm0, (%rdi)
        I vpcompressd %zmm0, (%rdi){%k1}
        I vcompresspd %zmm0, (%rdi){%k1}
        I vpexpandd (%rdi), %zmm0{%k1}
        I vcvtps2ph $0, %zmm0, (%rdi)
        I vpscatterdd %zmm0, (%rdi, %zmm3, 1){%k1}
        I vpgatherdd (%rdi, %zmm3, 1), %zmm0{%k1}
        I vpaddd (%rdi), %zmm1, %zmm0
        I vpaddd (%rdi){1to16}, %zmm1, %zmm0
        I vpxorq %zmm1, %zmm1, %zmm0
        I vpxord (%rdi), %zmm1, %zmm0
        I vpternlogd $0xff, %zmm0, %zmm0, %zmm0
        I vpternlogd $0x96, (%rdi), %zmm1, %zmm0
        I vpcmpeqb (%rdi), %zmm0, %k1
        I vpcmpub $1, (%rdi), %ymm16, %k1
        I vptestmb (%rdi), %ymm16, %k1
        I vptestnmb %ymm16, %ymm16, %k1
        I vpbroadcastb %eax, %ymm16
        I kmovq %k1, (%rdi)
        I kmovw %k1, (%rdi)
        I kmovd %k1, %eax
        I kmovq (%rdi), %k1
        I kmovd %eax, %k1
        I kortestd %k1, %k2
        I korq %k1, %k2, %k3

        .section .data.rel.ro.ttq_table, "aw"
        .quad 0, 0, 0
        .section .note.GNU-stack, "", @progbits
