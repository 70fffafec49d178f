// SPDX-License-Identifier: GPL-2.0-or-later
//
// VEX's front end, corrected: the translation counts each instruction that a processor would have
// executed, and no other.
//
// VEX takes two liberties that leave registers and memory right and the count of instructions
// wrong. Both are put right in the IR that its front end gives, before anything is optimised; VEX
// has no option for either that would not also make superblocks shorter.

#include "libvex.h"
#include "libvex_guest_amd64.h"
#include "pub_tool_basics.h"
#include "pub_tool_libcassert.h"

// What VEX's decoder says of one instruction. The interface is VEX's own.
typedef struct {
  UInt bytes;
  UInt what_next, hint;
  IRJumpKind jump_kind;
} Decoded;

typedef Decoded (*Decoder)(IRSB* block, const UChar* code, Long delta, Addr address, VexArch guest,
                           const VexArchInfo* arch, const VexAbiInfo* abi, VexEndness endness,
                           Bool complain);

enum { kRip = offsetof(VexGuestAMD64State, guest_RIP) };
enum { kRcx = offsetof(VexGuestAMD64State, guest_RCX) };

static void insert(IRSB* block, Int at, IRStmt* st) {
  addStmtToIRSB(block, st);
  for (Int i = block->stmts_used - 1; i > at; i--) block->stmts[i] = block->stmts[i - 1];
  block->stmts[at] = st;
}

static Bool exits_to(const IRStmt* st, Addr where) {
  return st->tag == Ist_Exit && st->Ist.Exit.jk == Ijk_Boring && st->Ist.Exit.dst->Ico.U64 == where;
}

static Bool puts_rip(const IRStmt* st, Addr where) {
  return st->tag == Ist_Put && st->Ist.Put.offset == kRip && st->Ist.Put.data->tag == Iex_Const &&
         st->Ist.Put.data->Iex.Const.con->Ico.U64 == where;
}

// A string instruction with a repeat prefix is one instruction for each repetition. VEX looks at
// the count before a repetition only, so that it comes back once more than a processor does and
// finds nothing left: the count is looked at after a repetition too.
//
// The statements from `first` on are those of the instruction at `address`. A string instruction is
// known by its two jumps, over itself and back to itself.
static void end_repetitions(IRSB* block, Int first, Addr address, Addr next) {
  Int back = -1;
  Bool over = False;
  for (Int i = first; i < block->stmts_used; i++) {
    if (exits_to(block->stmts[i], next)) over = True;
    if (exits_to(block->stmts[i], address) || puts_rip(block->stmts[i], address)) back = i;
  }
  if (!over || back < 0) return;
  IRExpr* none_left =
      IRExpr_Binop(Iop_CmpEQ64, IRExpr_Get(kRcx, Ity_I64), IRExpr_Const(IRConst_U64(0)));
  insert(block, back, IRStmt_Exit(none_left, Ijk_Boring, IRConst_U64(next), kRip));
}

static Decoder g_decode;  // one translation at a time

static Decoded decode(IRSB* block, const UChar* code, Long delta, Addr address, VexArch guest,
                      const VexArchInfo* arch, const VexAbiInfo* abi, VexEndness endness,
                      Bool complain) {
  Int first = block->stmts_used;
  Decoded decoded = g_decode(block, code, delta, address, guest, arch, abi, endness, complain);
  end_repetitions(block, first, address, address + decoded.bytes);
  return decoded;
}

// Where a block ends in a conditional branch to a short block without effects on memory, which ends
// in another branch and shares one of its destinations with the first, VEX takes both for the
// compiled form of `A && B`: it executes the second block whether or not the first branch leads
// there, chooses its results by A's condition, and leaves by one branch on both. The branch on A is
// put back before the second block's first instruction; its results are then chosen no more.
static void part_conditions(IRSB* block) {
  // The last two statements combine the conditions and branch.
  tl_assert(block->stmts_used >= 2 && block->next->tag == Iex_Const);
  IRStmt* both = block->stmts[block->stmts_used - 2];
  tl_assert(both->tag == Ist_WrTmp && both->Ist.WrTmp.data->tag == Iex_Binop &&
            both->Ist.WrTmp.data->Iex.Binop.op == Iop_And1);
  tl_assert(both->Ist.WrTmp.data->Iex.Binop.arg2->tag == Iex_RdTmp);
  const IRTemp a = both->Ist.WrTmp.data->Iex.Binop.arg2->Iex.RdTmp.tmp;
  both->Ist.WrTmp.data = both->Ist.WrTmp.data->Iex.Binop.arg1;
  // The branch on A was the last thing of the instruction that computes A.
  Int at = block->stmts_used - 1;
  Int second = -1;
  for (; at >= 0; at--) {
    IRStmt* st = block->stmts[at];
    if (st->tag == Ist_IMark) second = at;
    if (st->tag != Ist_WrTmp) continue;
    if (st->Ist.WrTmp.tmp == a) break;
    IRExpr* e = st->Ist.WrTmp.data;
    if (e->tag == Iex_ITE && e->Iex.ITE.cond->tag == Iex_RdTmp &&
        e->Iex.ITE.cond->Iex.RdTmp.tmp == a)
      st->Ist.WrTmp.data = e->Iex.ITE.iftrue;
  }
  tl_assert(at >= 0 && second > at);
  IRTemp not_a = newIRTemp(block->tyenv, Ity_I1);
  insert(block, second, IRStmt_WrTmp(not_a, IRExpr_Unop(Iop_Not1, IRExpr_RdTmp(a))));
  // If A is false both blocks leave for the same place.
  insert(block, second + 1,
         IRStmt_Exit(IRExpr_RdTmp(not_a), Ijk_Boring, deepCopyIRConst(block->next->Iex.Const.con),
                     kRip));
}

// The arguments that are only handed on keep VEX's types.
#define FRONT_END_PARAMETERS                                                                     \
  VexGuestExtents *extents, UInt *self_checks, UInt *instructions, UShort *jumps_followed,       \
      UShort *branches_followed, VexRegisterUpdates *updates, void *closure, Decoder decoder,    \
      const UChar *code, Addr start, Bool (*may_follow)(void*, Addr), VexEndness endness,        \
      Bool complain, VexArch guest, const VexArchInfo *arch, const VexAbiInfo *abi, IRType word, \
      UInt (*needs_self_check)(void*, VexRegisterUpdates*, const VexGuestExtents*),              \
      Bool (*preamble)(void*, IRSB*), Int check_start, Int check_bytes, Int rip, Int rip_bytes
IRSB* __real_bb_to_IR(FRONT_END_PARAMETERS);
IRSB* __wrap_bb_to_IR(FRONT_END_PARAMETERS);
IRSB* __wrap_bb_to_IR(FRONT_END_PARAMETERS) {
  g_decode = decoder;
  IRSB* block = __real_bb_to_IR(
      extents, self_checks, instructions, jumps_followed, branches_followed, updates, closure,
      decode, code, start, may_follow, endness, complain, guest, arch, abi, word, needs_self_check,
      preamble, check_start, check_bytes, rip, rip_bytes);
  if (*branches_followed) part_conditions(block);
  return block;
}
