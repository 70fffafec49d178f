// SPDX-License-Identifier: GPL-2.0-or-later
//
// A superblock's IR becomes a recipe and code that logs what the recipe cannot derive.
//
// The pass walks the flat IR once. Each IR temporary may have a node: an expression over constants,
// registers at entry and slots. Nodes are made on demand, when a temporary reaches something that
// is recorded: an address, stored data, a general register, a guard. A temporary whose definition
// cannot be expressed in nodes gets a slot: its value is stored into the record at that point.
// Since the IR is in SSA form, a temporary may be logged at any point after its definition.
//
// VEX is told to keep every register write of every instruction (allregs-at-each-insn), so that the
// recipe knows each of them. The ones the program cannot observe are removed again afterwards, by
// the rule of allregs-at-mem-access; see remove_dead_puts.

#include "recorder/tool/recipe.h"

#include "libvex_guest_amd64.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

enum { kMaxNodes = 6000, kMaxEffects = 6000, kMaxInstructionBytes = 8192 };
enum { kUnknown = -1 };
enum {  // a bit for each vector word
  kArguments = (1 << 2 * kTtqVectorCount) - 1,
  kResults = 3 | 3 << kTtqHighWord | 1 << kTtqX87Word  // xmm0, xmm1
};

typedef struct {
  IRSB* in;
  IRSB* out;
  Int guest_bytes;      // size of the guest state: the first shadow area starts here
  IRTemp record;        // address of this execution's record
  Int record_bytes;     // so far
  Int exits;            // side exits so far
  UInt header_exit;     // the exit the header names at this point
  IRExpr** definition;  // by temporary of `in`
  Int* node_of_temp;    // by temporary of `in`; kUnknown
  UInt* failed_at;      // by temporary: value of `generation` when deriving it last failed
  UInt generation;      // counts slots made
  Int reg_node[kTtqRegCount];
  UInt vectors_written;    // a bit for each vector word: written since it was last logged
  UInt vectors_not_known;  // the recipe has said so
  UInt numbers_written;    // of those, the ones whose last write was a single number
  UInt node_count, effect_count, instruction_count, instruction_bytes;
  IRConst* headers[kTtqMaxSideExits + 2];  // to be patched with the id
  Int header_count;
} Pass;

// One translation at a time: Valgrind holds its big lock while it translates.
static TtqNode g_nodes[kMaxNodes];
static TtqEffect g_effects[kMaxEffects];
static UChar g_instructions[kMaxInstructionBytes];
static UChar
    g_encoded[sizeof(TtqRecipe) + sizeof(g_nodes) + sizeof(g_effects) + kMaxInstructionBytes];

// ---- Emitting code ------------------------------------------------------------------------------

static IRExpr* const64(ULong v) { return IRExpr_Const(IRConst_U64(v)); }

static IRExpr* assign_temp(Pass* p, IRType type, IRExpr* e) {
  IRTemp t = newIRTemp(p->out->tyenv, type);
  addStmtToIRSB(p->out, IRStmt_WrTmp(t, e));
  return IRExpr_RdTmp(t);
}

static IRExpr* record_address(Pass* p, Int offset) {
  if (offset == 0) return IRExpr_RdTmp(p->record);
  return assign_temp(p, Ity_I64, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(p->record), const64(offset)));
}

static void emit_header(Pass* p, UInt exit_number) {
  IRConst* c = IRConst_U32(exit_number);
  tl_assert(p->header_count < kTtqMaxSideExits + 2);
  p->headers[p->header_count++] = c;
  addStmtToIRSB(p->out, IRStmt_Store(Iend_LE, record_address(p, 0), IRExpr_Const(c)));
}

// The header always names the exit that comes next in program order, so that most exits need not
// write it: at entry it is the first.
static void emit_exit(Pass* p, UInt exit_number) {
  if (p->header_exit != exit_number) emit_header(p, exit_number);
  p->header_exit = exit_number;
  addStmtToIRSB(p->out,
                IRStmt_Put(p->guest_bytes + kShadowNext, record_address(p, p->record_bytes)));
}

// ---- Nodes --------------------------------------------------------------------------------------

static Int add_node(Pass* p, UInt op, UInt w, UInt a, UInt b, UInt c, ULong imm) {
  TtqNode* n = &g_nodes[p->node_count];
  tl_assert(p->node_count < kMaxNodes);
  VG_(memset)(n, 0, sizeof(*n));
  n->op = op;
  n->w = w;
  n->a = a;
  n->b = b;
  n->c = c;
  n->imm = imm;
  return p->node_count++;
}

static Int const_node(Pass* p, ULong v) {
  for (Int i = (Int)p->node_count - 1; i >= 0 && i + 12 > (Int)p->node_count; i--)
    if (g_nodes[i].op == kTtqConst && g_nodes[i].imm == v) return i;
  return add_node(p, kTtqConst, 8, 0, 0, 0, v);
}

static UInt bytes_of(IRType type) { return type == Ity_I1 ? 1 : sizeofIRType(type); }

static IRType type_of(Pass* p, IRExpr* e) { return typeOfIRExpr(p->out->tyenv, e); }

static Bool const_value(const IRExpr* e, ULong* v) {
  if (e->tag != Iex_Const) return False;
  const IRConst* c = e->Iex.Const.con;
  switch (c->tag) {
    case Ico_U1:
      *v = c->Ico.U1 ? 1 : 0;
      return True;
    case Ico_U8:
      *v = c->Ico.U8;
      return True;
    case Ico_U16:
      *v = c->Ico.U16;
      return True;
    case Ico_U32:
      *v = c->Ico.U32;
      return True;
    case Ico_U64:
      *v = c->Ico.U64;
      return True;
    case Ico_F64i:
      *v = c->Ico.F64i;
      return True;
    case Ico_F32i:
      *v = c->Ico.F32i;
      return True;
    case Ico_F64:
      VG_(memcpy)(v, &c->Ico.F64, 8);
      return True;
    case Ico_F32:
      *v = 0;
      VG_(memcpy)(v, &c->Ico.F32, 4);
      return True;
    default:
      return False;
  }
}

// Logs the value of an atom and returns its slot. The slot of an I1 is a byte.
static Int make_slot(Pass* p, IRExpr* atom) {
  IRType type = type_of(p, atom);
  IRExpr* value = atom;
  if (type == Ity_I1) value = assign_temp(p, Ity_I8, IRExpr_Unop(Iop_1Uto8, atom));
  UInt w = bytes_of(type);
  addStmtToIRSB(p->out, IRStmt_Store(Iend_LE, record_address(p, p->record_bytes), value));
  Int n = add_node(p, kTtqSlot, w, 0, 0, 0, p->record_bytes);
  p->record_bytes += w;
  p->generation++;
  tl_assert(p->record_bytes <= kTtqMaxRecordBytes);
  return n;
}

static Int derive(Pass* p, IRExpr* e, Bool may_log);

// The node of an atom; kUnknown only if may_log is false.
static Int node_of(Pass* p, IRExpr* atom, Bool may_log) {
  ULong v;
  if (const_value(atom, &v)) return const_node(p, v);
  if (atom->tag == Iex_Const) {  // a vector
    const IRConst* c = atom->Iex.Const.con;
    if (c->tag == Ico_V128) return add_node(p, kTtqVectorConst, 16, 0, 0, 0, c->Ico.V128);
    if (c->tag == Ico_V256) return add_node(p, kTtqVectorConst, 32, 0, 0, 0, c->Ico.V256);
    return may_log ? make_slot(p, atom) : kUnknown;
  }
  tl_assert(atom->tag == Iex_RdTmp);
  IRTemp t = atom->Iex.RdTmp.tmp;
  if (p->node_of_temp[t] != kUnknown) return p->node_of_temp[t];
  Int n = kUnknown;
  if (p->failed_at[t] != p->generation && p->definition[t]) {
    n = derive(p, p->definition[t], may_log);
    if (n == kUnknown) p->failed_at[t] = p->generation;
  }
  if (n == kUnknown && may_log) n = make_slot(p, atom);
  p->node_of_temp[t] = n;
  return n;
}

static Int extract_node(Pass* p, Int a, UInt width, UInt from_byte) {
  if (a == kUnknown) return kUnknown;
  return add_node(p, kTtqExtract, width, a, 0, from_byte, 0);
}

typedef struct {
  UChar op, w;
} Arithmetic;

static Arithmetic arithmetic_of(IROp op) {
#define OPS(name, node)           \
  case Iop_##name##8:             \
    return (Arithmetic){node, 1}; \
  case Iop_##name##16:            \
    return (Arithmetic){node, 2}; \
  case Iop_##name##32:            \
    return (Arithmetic){node, 4}; \
  case Iop_##name##64:            \
    return (Arithmetic) { node, 8 }
#define OPS_32_64(name, suffix, node) \
  case Iop_##name##32##suffix:        \
    return (Arithmetic){node, 4};     \
  case Iop_##name##64##suffix:        \
    return (Arithmetic) { node, 8 }
  switch (op) {
    OPS(Add, kTtqAdd);
    OPS(Sub, kTtqSub);
    OPS(And, kTtqAnd);
    OPS(Or, kTtqOr);
    OPS(Xor, kTtqXor);
    OPS(Mul, kTtqMul);
    OPS(Shl, kTtqShl);
    OPS(Shr, kTtqShr);
    OPS(Sar, kTtqSar);
    OPS(CmpEQ, kTtqEq);
    OPS(CmpNE, kTtqNe);
    OPS(CasCmpEQ, kTtqEq);
    OPS(CasCmpNE, kTtqNe);
    OPS_32_64(CmpLT, S, kTtqLtS);
    OPS_32_64(CmpLT, U, kTtqLtU);
    OPS_32_64(CmpLE, S, kTtqLeS);
    OPS_32_64(CmpLE, U, kTtqLeU);
    default:
      return (Arithmetic){0, 0};
  }
#undef OPS
#undef OPS_32_64
}

static Int derive_unop(Pass* p, IROp op, IRExpr* arg, Bool may_log) {
  // Widening: log the narrow value rather than the wide one.
  switch (op) {
    case Iop_1Uto8:
    case Iop_1Uto32:
    case Iop_1Uto64:
    case Iop_8Uto16:
    case Iop_8Uto32:
    case Iop_8Uto64:
    case Iop_16Uto32:
    case Iop_16Uto64:
    case Iop_32Uto64:
      return node_of(p, arg, may_log);
    default:
      break;
  }
  UInt from = 0, to = 0;
  switch (op) {
    case Iop_8Sto16:
      from = 1;
      to = 2;
      break;
    case Iop_8Sto32:
      from = 1;
      to = 4;
      break;
    case Iop_8Sto64:
      from = 1;
      to = 8;
      break;
    case Iop_16Sto32:
      from = 2;
      to = 4;
      break;
    case Iop_16Sto64:
      from = 2;
      to = 8;
      break;
    case Iop_32Sto64:
      from = 4;
      to = 8;
      break;
    default:
      break;
  }
  if (from) {
    Int a = node_of(p, arg, may_log);
    return a == kUnknown ? a : add_node(p, kTtqSext, from, a, 0, to, 0);
  }
  // Narrowing: derive from what is known already, else log the narrow result.
  Int a = kUnknown;
  switch (op) {
    case Iop_64to32:
      return extract_node(p, node_of(p, arg, False), 4, 0);
    case Iop_64to16:
    case Iop_32to16:
      return extract_node(p, node_of(p, arg, False), 2, 0);
    case Iop_64to8:
    case Iop_32to8:
    case Iop_16to8:
      return extract_node(p, node_of(p, arg, False), 1, 0);
    case Iop_64HIto32:
      return extract_node(p, node_of(p, arg, False), 4, 4);
    case Iop_32HIto16:
      return extract_node(p, node_of(p, arg, False), 2, 2);
    case Iop_16HIto8:
      return extract_node(p, node_of(p, arg, False), 1, 1);
    case Iop_64to1:
    case Iop_32to1:
      a = node_of(p, arg, False);
      return a == kUnknown ? a : add_node(p, kTtqAnd, 1, a, const_node(p, 1), 0, 0);
    case Iop_Not8:
    case Iop_Not16:
    case Iop_Not32:
    case Iop_Not64:
      a = node_of(p, arg, False);
      return a == kUnknown ? a
                           : add_node(p, kTtqNot,
                                      op == Iop_Not8    ? 1
                                      : op == Iop_Not16 ? 2
                                      : op == Iop_Not32 ? 4
                                                        : 8,
                                      a, 0, 0, 0);
    case Iop_Not1:
      a = node_of(p, arg, False);
      return a == kUnknown ? a : add_node(p, kTtqXor, 1, a, const_node(p, 1), 0, 0);
    default:
      return kUnknown;
  }
}

static Int derive(Pass* p, IRExpr* e, Bool may_log) {
  switch (e->tag) {
    case Iex_Const:
    case Iex_RdTmp:
      return node_of(p, e, may_log);
    case Iex_Unop:
      return derive_unop(p, e->Iex.Unop.op, e->Iex.Unop.arg, may_log);
    case Iex_Binop: {
      Arithmetic how = arithmetic_of(e->Iex.Binop.op);
      if (how.w == 0) return kUnknown;
      Int a = node_of(p, e->Iex.Binop.arg1, False);
      if (a == kUnknown) return kUnknown;
      ULong v;
      if ((how.op == kTtqAdd || how.op == kTtqSub) && const_value(e->Iex.Binop.arg2, &v)) {
        if (how.op == kTtqSub) v = -v;
        if (g_nodes[a].op == kTtqAddI && g_nodes[a].w == how.w)
          return add_node(p, kTtqAddI, how.w, g_nodes[a].a, 0, 0, g_nodes[a].imm + v);
        return add_node(p, kTtqAddI, how.w, a, 0, 0, v);
      }
      Int b = node_of(p, e->Iex.Binop.arg2, False);
      if (b == kUnknown) return kUnknown;
      return add_node(p, how.op, how.w, a, b, 0, 0);
    }
    case Iex_ITE: {
      if (bytes_of(type_of(p, e->Iex.ITE.iftrue)) > 8) return kUnknown;
      Int c = node_of(p, e->Iex.ITE.cond, False);
      Int a = c == kUnknown ? c : node_of(p, e->Iex.ITE.iftrue, False);
      Int b = a == kUnknown ? a : node_of(p, e->Iex.ITE.iffalse, False);
      return b == kUnknown ? b : add_node(p, kTtqIte, 8, c, a, b, 0);
    }
    default:
      return kUnknown;
  }
}

// ---- Registers ----------------------------------------------------------------------------------

// The tracked register that holds guest state byte `offset`, or -1; *byte is where in it.
static Int register_at(Int offset, UInt* byte) {
  *byte = offset & 7;
  if (offset >= (Int)offsetof(VexGuestAMD64State, guest_RAX) &&
      offset < (Int)offsetof(VexGuestAMD64State, guest_R15) + 8)
    return (offset - (Int)offsetof(VexGuestAMD64State, guest_RAX)) / 8;
  Int base = offset & ~7;
  if (base == (Int)offsetof(VexGuestAMD64State, guest_FS_CONST)) return kTtqRegFs;
  if (base == (Int)offsetof(VexGuestAMD64State, guest_GS_CONST)) return kTtqRegGs;
  if (base == (Int)offsetof(VexGuestAMD64State, guest_DFLAG)) return kTtqRegDirection;
  return -1;
}

Int ttq_register_offset(Int reg) {
  if (reg == kTtqRegFs) return offsetof(VexGuestAMD64State, guest_FS_CONST);
  if (reg == kTtqRegGs) return offsetof(VexGuestAMD64State, guest_GS_CONST);
  if (reg == kTtqRegDirection) return offsetof(VexGuestAMD64State, guest_DFLAG);
  return offsetof(VexGuestAMD64State, guest_RAX) + 8 * reg;
}

static void add_effect(Pass* p, UInt kind, UInt size, UInt addr, UInt value, UInt guard) {
  tl_assert(p->effect_count < kMaxEffects);
  g_effects[p->effect_count++] =
      (TtqEffect){.kind = kind, .size = size, .addr = addr, .value = value, .guard = guard};
}

static Int node_of_get(Pass* p, Int offset, IRType type) {
  UInt byte;
  Int reg = register_at(offset, &byte);
  UInt w = bytes_of(type);
  if (reg < 0 || w > 8) return kUnknown;
  if (w == 8) return p->reg_node[reg];
  return extract_node(p, p->reg_node[reg], w, byte);
}

static void set_register(Pass* p, Int reg, Int node) {
  p->reg_node[reg] = node;
  add_effect(p, kTtqSetReg, reg, kTtqNoNode, node, kTtqNoNode);
}

static void handle_put(Pass* p, Int offset, IRExpr* data) {
  UInt byte;
  Int reg = register_at(offset, &byte);
  UInt w = bytes_of(type_of(p, data));
  if (reg < 0) return;
  tl_assert(w <= 8);
  Int n = node_of(p, data, True);
  if (w < 8) n = add_node(p, kTtqInsert, w, p->reg_node[reg], n, byte, 0);
  set_register(p, reg, n);
}

// After a helper wrote guest state: what it left in tracked registers is logged.
static void reload_registers(Pass* p, Int offset, Int size) {
  for (Int reg = 0; reg < kTtqRegCount; reg++) {
    Int at = ttq_register_offset(reg);
    if (at + 8 <= offset || at >= offset + size) continue;
    set_register(p, reg, make_slot(p, assign_temp(p, Ity_I64, IRExpr_Get(at, Ity_I64))));
  }
}

// ---- Vector registers ---------------------------------------------------------------------------
//
// What is in xmm0 … xmm7 and st(0) is logged only where a call may pass it, or a return: at each of
// those what was written since the superblock began. Elsewhere a write makes it unknown, which
// costs nothing while the program runs; but a single number may be an argument or a result that is
// passed on from another superblock, after a loop or a branch: it is logged. The high half of a
// register that a single number was put in is not looked at: no such argument has one.

// REQUIRES: not of kTtqX87Word.
Int ttq_vector_offset(Int word) {
  Int distance =
      offsetof(VexGuestAMD64State, guest_YMM1) - offsetof(VexGuestAMD64State, guest_YMM0);
  return offsetof(VexGuestAMD64State, guest_YMM0) + word % kTtqVectorCount * distance +
         (word >= kTtqHighWord ? 8 : 0);
}

// Whether a value is made by an operation on one number, rather than on several in parallel. It may
// be: the sign of a number is changed by an operation on all bits.
enum Number { kNoNumber, kMayBeNumber, kSingleNumber };
static enum Number number_in(const Pass* p, const IRExpr* e) {
  if (e->tag == Iex_RdTmp) e = p->definition[e->Iex.RdTmp.tmp];
  if (!e) return kNoNumber;
  if (e->tag == Iex_Get) return kMayBeNumber;  // a register's copy
  if (e->tag == Iex_Const) {                   // 0 is how a sum begins
    const IRConst* c = e->Iex.Const.con;
    return c->tag == Ico_V128 && c->Ico.V128 == 0 ? kMayBeNumber : kNoNumber;
  }
  IROp op = e->tag == Iex_Binop  ? e->Iex.Binop.op
            : e->tag == Iex_Unop ? e->Iex.Unop.op
                                 : Iop_INVALID;
  switch (op) {
    case Iop_Add32F0x4:
    case Iop_Sub32F0x4:
    case Iop_Mul32F0x4:
    case Iop_Div32F0x4:
    case Iop_Max32F0x4:
    case Iop_Min32F0x4:
    case Iop_Sqrt32F0x4:
    case Iop_Add64F0x2:
    case Iop_Sub64F0x2:
    case Iop_Mul64F0x2:
    case Iop_Div64F0x2:
    case Iop_Max64F0x2:
    case Iop_Min64F0x2:
    case Iop_Sqrt64F0x2:
    case Iop_SetV128lo32:
    case Iop_SetV128lo64:
    case Iop_32UtoV128:
    case Iop_64UtoV128:
      return kSingleNumber;
    case Iop_XorV128:  // the sign, turned round,
    case Iop_AndV128:  // taken away,
    case Iop_OrV128:   // and given
      return kMayBeNumber;
    default:
      return kNoNumber;
  }
}

static void note_word_write(Pass* p, Int word) {
  p->vectors_written |= 1u << word;
  if (p->vectors_not_known >> word & 1) return;
  p->vectors_not_known |= 1u << word;
  add_effect(p, kTtqSetVector, word, kTtqNoNode, kTtqNoNode, kTtqNoNode);
}

static void note_x87_write(Pass* p) {
  note_word_write(p, kTtqX87Word);
  p->numbers_written |= 1u << kTtqX87Word;
}

static void note_vector_write(Pass* p, Int offset, Int size) {
  for (Int word = 0; word < kTtqX87Word; word++) {
    Int at = ttq_vector_offset(word);
    if (at + 8 > offset && at < offset + size) note_word_write(p, word);
  }
  // Which register is st(0) depends on the top of their stack.
  Int top = offsetof(VexGuestAMD64State, guest_FTOP);
  Int registers = offsetof(VexGuestAMD64State, guest_FPREG);
  if ((top >= offset && top < offset + size) ||
      (registers + 64 > offset && registers < offset + size))
    note_x87_write(p);
}

static void note_number_write(Pass* p, Int offset, IRExpr* data) {
  for (Int reg = 0; reg < kTtqVectorCount; reg++) {
    if (offset != ttq_vector_offset(reg)) continue;
    enum Number number = bytes_of(type_of(p, data)) <= 8 ? kSingleNumber : number_in(p, data);
    p->numbers_written &= ~(1u << reg);
    if (number != kNoNumber) p->numbers_written |= 1u << reg;
    if (number == kSingleNumber) p->vectors_written &= ~(1u << (reg + kTtqHighWord));
  }
}

static IRExpr* vector_word(Pass* p, Int word) {
  if (word != kTtqX87Word)
    return assign_temp(p, Ity_I64, IRExpr_Get(ttq_vector_offset(word), Ity_I64));
  IRExpr* top =
      assign_temp(p, Ity_I32, IRExpr_Get(offsetof(VexGuestAMD64State, guest_FTOP), Ity_I32));
  IRRegArray* registers = mkIRRegArray(offsetof(VexGuestAMD64State, guest_FPREG), Ity_F64, 8);
  IRExpr* number = assign_temp(p, Ity_F64, IRExpr_GetI(registers, top, 0));
  return assign_temp(p, Ity_I64, IRExpr_Unop(Iop_ReinterpF64asI64, number));
}

// `which`: a bit for each word.
static void log_vectors(Pass* p, UInt which) {
  for (Int word = 0; word < kTtqVectorWords; word++) {
    if (!((p->vectors_written & which) >> word & 1)) continue;
    add_effect(p, kTtqSetVector, word, kTtqNoNode, make_slot(p, vector_word(p, word)), kTtqNoNode);
    p->vectors_written &= ~(1u << word);
    p->vectors_not_known &= ~(1u << word);
  }
}

// Before the superblock may be left, but for a call or a return. All of them are restored together
// by the dynamic linker, which has found a function that is about to be called.
static void log_numbers(Pass* p) {
  Bool restored = (p->vectors_written & kArguments) == kArguments;
  log_vectors(p, restored ? kArguments : p->numbers_written);
}

// ---- Statements ---------------------------------------------------------------------------------

static Int guard_node(Pass* p, IRExpr* guard) {
  if (!guard) return kTtqNoNode;
  if (guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1) return kTtqNoNode;
  return node_of(p, guard, True);
}

static void handle_dirty(Pass* p, IRStmt* st) {
  IRDirty* d = st->Ist.Dirty.details;
  Int guard = guard_node(p, d->guard);
  Int addr = d->mFx == Ifx_None ? kTtqNoNode : node_of(p, d->mAddr, True);
  if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify) {
    // An effect's size is a byte; larger reads are cut up.
    for (Int done = 0; done < d->mSize; done += 64) {
      Int n = d->mSize - done < 64 ? d->mSize - done : 64;
      Int at = done ? add_node(p, kTtqAddI, 8, addr, 0, 0, done) : addr;
      add_effect(p, kTtqLoad, n, at, kTtqNoNode, guard);
    }
  }
  addStmtToIRSB(p->out, st);
  if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify) {
    for (Int done = 0; done < d->mSize;) {
      Int left = d->mSize - done;
      Int n = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
      IRType type = n == 8 ? Ity_I64 : n == 4 ? Ity_I32 : n == 2 ? Ity_I16 : Ity_I8;
      IRExpr* from = assign_temp(p, Ity_I64, IRExpr_Binop(Iop_Add64, d->mAddr, const64(done)));
      IRExpr* value;
      if (guard == kTtqNoNode) {
        value = assign_temp(p, type, IRExpr_Load(Iend_LE, type, from));
      } else {
        IRTemp t = newIRTemp(p->out->tyenv, type);
        IRLoadGOp how = n == 8 ? ILGop_Ident64 : ILGop_Ident32;
        if (n < 4) {  // LoadG only knows widening from 8 and 16 bits
          IRTemp wide = newIRTemp(p->out->tyenv, Ity_I32);
          addStmtToIRSB(p->out, IRStmt_LoadG(Iend_LE, n == 2 ? ILGop_16Uto32 : ILGop_8Uto32, wide,
                                             from, IRExpr_Const(IRConst_U32(0)), d->guard));
          addStmtToIRSB(p->out, IRStmt_WrTmp(t, IRExpr_Unop(n == 2 ? Iop_32to16 : Iop_32to8,
                                                            IRExpr_RdTmp(wide))));
        } else {
          IRExpr* zero = n == 8 ? const64(0) : IRExpr_Const(IRConst_U32(0));
          addStmtToIRSB(p->out, IRStmt_LoadG(Iend_LE, how, t, from, zero, d->guard));
        }
        value = IRExpr_RdTmp(t);
      }
      Int at = done ? add_node(p, kTtqAddI, 8, addr, 0, 0, done) : addr;
      add_effect(p, kTtqStore, n, at, make_slot(p, value), guard);
      done += n;
    }
  }
  for (Int i = 0; i < d->nFxState; i++) {
    if (d->fxState[i].fx == Ifx_Read) continue;
    for (Int r = 0; r <= d->fxState[i].nRepeats; r++) {
      Int offset = d->fxState[i].offset + r * d->fxState[i].repeatLen;
      reload_registers(p, offset, d->fxState[i].size);
      note_vector_write(p, offset, d->fxState[i].size);
    }
  }
}

static void handle_cas(Pass* p, IRStmt* st) {
  IRCAS* cas = st->Ist.CAS.details;
  Bool is_double = cas->expdHi != NULL;
  IRType type = type_of(p, cas->dataLo);
  UInt w = bytes_of(type);
  Int addr = node_of(p, cas->addr, True);
  Int low = node_of(p, cas->dataLo, True);
  Int high = is_double ? node_of(p, cas->dataHi, True) : kTtqNoNode;
  add_effect(p, kTtqLoad, is_double ? 2 * w : w, addr, kTtqNoNode, kTtqNoNode);
  addStmtToIRSB(p->out, st);
  IROp eq = w == 1 ? Iop_CmpEQ8 : w == 2 ? Iop_CmpEQ16 : w == 4 ? Iop_CmpEQ32 : Iop_CmpEQ64;
  IRExpr* success;
  if (!is_double) {
    success = assign_temp(p, Ity_I1, IRExpr_Binop(eq, IRExpr_RdTmp(cas->oldLo), cas->expdLo));
  } else {  // VEX cannot combine two conditions: both halves have no bit that differs
    IROp xor = w == 4 ? Iop_Xor32 : Iop_Xor64;
    IRExpr* low_differs =
        assign_temp(p, type, IRExpr_Binop(xor, IRExpr_RdTmp(cas->oldLo), cas->expdLo));
    IRExpr* high_differs =
        assign_temp(p, type, IRExpr_Binop(xor, IRExpr_RdTmp(cas->oldHi), cas->expdHi));
    IRExpr* differs =
        assign_temp(p, type, IRExpr_Binop(w == 4 ? Iop_Or32 : Iop_Or64, low_differs, high_differs));
    IRExpr* zero = IRExpr_Const(w == 4 ? IRConst_U32(0) : IRConst_U64(0));
    success = assign_temp(p, Ity_I1, IRExpr_Binop(eq, differs, zero));
  }
  Int guard = make_slot(p, success);
  add_effect(p, kTtqStore, w, addr, low, guard);
  if (is_double) add_effect(p, kTtqStore, w, add_node(p, kTtqAddI, 8, addr, 0, 0, w), high, guard);
}

// Where VEX goes on behind a jump or call in the same superblock, it leaves the instruction pointer
// at the jump. A fault there must be told from one here. The ones nobody sees are removed again.
static void put_instruction_pointer(Pass* p, const IRStmt* mark, const IRStmt* next) {
  Int at = offsetof(VexGuestAMD64State, guest_RIP);
  if (next && next->tag == Ist_Put && next->Ist.Put.offset == at) return;
  addStmtToIRSB(p->out, IRStmt_Put(at, const64(mark->Ist.IMark.addr)));
}

static void handle_statement(Pass* p, IRStmt* st) {
  switch (st->tag) {
    case Ist_NoOp:
      return;
    case Ist_IMark: {
      UInt len = st->Ist.IMark.len;
      ULong address = st->Ist.IMark.addr + st->Ist.IMark.delta;
      tl_assert(p->instruction_bytes + 9 + len <= kMaxInstructionBytes);
      VG_(memcpy)(g_instructions + p->instruction_bytes, &address, 8);
      g_instructions[p->instruction_bytes + 8] = len;
      VG_(memcpy)(g_instructions + p->instruction_bytes + 9, (void*)address, len);
      p->instruction_bytes += 9 + len;
      p->instruction_count++;
      add_effect(p, kTtqInstruction, 0, kTtqNoNode, kTtqNoNode, kTtqNoNode);
      break;
    }
    case Ist_Put:
      handle_put(p, st->Ist.Put.offset, st->Ist.Put.data);
      note_vector_write(p, st->Ist.Put.offset, bytes_of(type_of(p, st->Ist.Put.data)));
      note_number_write(p, st->Ist.Put.offset, st->Ist.Put.data);
      break;
    case Ist_WrTmp: {
      IRTemp t = st->Ist.WrTmp.tmp;
      IRExpr* e = st->Ist.WrTmp.data;
      p->definition[t] = e;
      if (e->tag == Iex_Get) {
        p->node_of_temp[t] = node_of_get(p, e->Iex.Get.offset, e->Iex.Get.ty);
      } else if (e->tag == Iex_Load) {
        add_effect(p, kTtqLoad, bytes_of(e->Iex.Load.ty), node_of(p, e->Iex.Load.addr, True),
                   kTtqNoNode, kTtqNoNode);
      }
      break;
    }
    case Ist_Store:
    case Ist_StoreG: {
      Bool guarded = st->tag == Ist_StoreG;
      IRExpr* data = guarded ? st->Ist.StoreG.details->data : st->Ist.Store.data;
      Int addr = node_of(p, guarded ? st->Ist.StoreG.details->addr : st->Ist.Store.addr, True);
      Int value = node_of(p, data, True);
      Int guard = guarded ? guard_node(p, st->Ist.StoreG.details->guard) : kTtqNoNode;
      add_effect(p, kTtqStore, bytes_of(type_of(p, data)), addr, value, guard);
      break;
    }
    case Ist_LoadG: {
      IRLoadG* lg = st->Ist.LoadG.details;
      IRType result, from;
      typeOfIRLoadGOp(lg->cvt, &result, &from);
      Int addr = node_of(p, lg->addr, True);
      add_effect(p, kTtqLoad, bytes_of(from), addr, kTtqNoNode, guard_node(p, lg->guard));
      break;
    }
    case Ist_CAS:
      handle_cas(p, st);
      return;
    case Ist_Dirty:
      handle_dirty(p, st);
      return;
    case Ist_Exit:
      log_numbers(p);
      p->exits++;
      tl_assert(p->exits <= kTtqMaxSideExits);
      emit_exit(p, p->exits);
      add_effect(p, kTtqExit, p->exits, p->record_bytes, kTtqNoNode, kTtqNoNode);
      break;
    case Ist_LLSC:
      VG_(tool_panic)("ttq: load-linked on amd64");
      break;
    case Ist_PutI:  // x87 and MMX only
      note_x87_write(p);
      break;
    default:
      break;  // AbiHint, MBE
  }
  addStmtToIRSB(p->out, st);
}

// ---- Removing register writes nobody sees -------------------------------------------------------
//
// A PUT is dead when all its bytes are written again before anything can observe them: an exit, an
// access to memory or a division (it may fault, and a signal handler sees all registers), a helper
// call, or a GET. The log's own stores cannot fault.

static Bool is_own_temp(const Pass* p, const IRExpr* e) {
  return e->tag == Iex_RdTmp && e->Iex.RdTmp.tmp >= (IRTemp)p->in->tyenv->types_used;
}

static Bool may_fault(const IRExpr* e) {
  if (e->tag == Iex_Load) return True;
  if (e->tag != Iex_Binop) return False;
  switch (e->Iex.Binop.op) {
    case Iop_DivModU64to32:
    case Iop_DivModS64to32:
    case Iop_DivModU128to64:
    case Iop_DivModS128to64:
    case Iop_DivModU32to32:
    case Iop_DivModS32to32:
    case Iop_DivModU64to64:
    case Iop_DivModS64to64:
    case Iop_DivU32:
    case Iop_DivS32:
    case Iop_DivU64:
    case Iop_DivS64:
      return True;
    default:
      return False;
  }
}

static void remove_dead_puts(Pass* p, Int first) {
  static UChar overwritten[2048];  // by guest state byte
  tl_assert(p->guest_bytes <= (Int)sizeof(overwritten));
  VG_(memset)(overwritten, 0, p->guest_bytes);
  for (Int i = p->out->stmts_used - 1; i >= first; i--) {
    IRStmt* st = p->out->stmts[i];
    switch (st->tag) {
      case Ist_Put: {
        Int offset = st->Ist.Put.offset;
        UInt w = bytes_of(type_of(p, st->Ist.Put.data));
        if (offset >= p->guest_bytes) break;  // the log's
        Bool dead = True;
        for (UInt k = 0; k < w; k++) dead = dead && overwritten[offset + k];
        if (dead) {
          p->out->stmts[i] = IRStmt_NoOp();
        } else {
          VG_(memset)(overwritten + offset, 1, w);
        }
        break;
      }
      case Ist_WrTmp: {
        const IRExpr* e = st->Ist.WrTmp.data;
        if (e->tag == Iex_Get && e->Iex.Get.offset < p->guest_bytes) {
          VG_(memset)(overwritten + e->Iex.Get.offset, 0, bytes_of(e->Iex.Get.ty));
        } else if (e->tag == Iex_GetI || may_fault(e)) {
          VG_(memset)(overwritten, 0, p->guest_bytes);
        }
        break;
      }
      case Ist_Store:
        if (is_own_temp(p, st->Ist.Store.addr)) break;
        VG_(memset)(overwritten, 0, p->guest_bytes);
        break;
      case Ist_IMark:
      case Ist_NoOp:
      case Ist_AbiHint:
        break;
      default:
        VG_(memset)(overwritten, 0, p->guest_bytes);
        break;
    }
  }
}

// ---- The whole superblock -----------------------------------------------------------------------

static UInt jump_kind_of(IRJumpKind kind) {
  switch (kind) {
    case Ijk_Boring:
      return kTtqJumpPlain;
    case Ijk_Call:
      return kTtqJumpCall;
    case Ijk_Ret:
      return kTtqJumpReturn;
    case Ijk_Sys_syscall:
      return kTtqJumpSyscall;
    default:
      return kTtqJumpOther;
  }
}

static const TtqRecipe* encode(Pass* p) {
  TtqRecipe* r = (TtqRecipe*)g_encoded;
  VG_(memset)(r, 0, sizeof(*r));
  UInt node_bytes = p->node_count * sizeof(TtqNode);
  UInt effect_bytes = p->effect_count * sizeof(TtqEffect);
  r->bytes = sizeof(*r) + node_bytes + effect_bytes + p->instruction_bytes;
  r->node_count = p->node_count;
  r->effect_count = p->effect_count;
  r->instruction_count = p->instruction_count;
  r->exit_count = p->exits + 1;
  r->record_bytes = p->record_bytes;
  r->instruction_bytes = p->instruction_bytes;
  r->jump_kind = jump_kind_of(p->in->jumpkind);
  UChar* at = g_encoded + sizeof(*r);
  VG_(memcpy)(at, g_nodes, node_bytes);
  VG_(memcpy)(at + node_bytes, g_effects, effect_bytes);
  VG_(memcpy)(at + node_bytes + effect_bytes, g_instructions, p->instruction_bytes);
  return r;
}

IRSB* ttq_instrument_superblock(IRSB* in, const VexGuestLayout* layout,
                                UInt (*assign)(const TtqRecipe* recipe), void (*room)(void)) {
  Pass pass;
  Pass* p = &pass;
  VG_(memset)(p, 0, sizeof(*p));
  p->in = in;
  p->out = deepCopyIRSBExceptStmts(in);
  p->guest_bytes = layout->total_sizeB;
  p->generation = 1;
  for (Int r = 0; r < kTtqRegCount; r++) p->reg_node[r] = add_node(p, kTtqReg, 8, r, 0, 0, 0);

  // What comes before the first instruction checks for changed code; it is not the program's.
  Int i = 0;
  while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark)
    addStmtToIRSB(p->out, in->stmts[i++]);
  if (i == in->stmts_used) return p->out;
  Int first = p->out->stmts_used;

  Int temps = in->tyenv->types_used;
  p->definition = VG_(calloc)("ttq.definition", temps, sizeof(IRExpr*));
  p->node_of_temp = VG_(malloc)("ttq.node", temps * sizeof(Int));
  p->failed_at = VG_(calloc)("ttq.failed", temps, sizeof(UInt));
  for (Int t = 0; t < temps; t++) p->node_of_temp[t] = kUnknown;

  Int next_at = p->guest_bytes + kShadowNext;
  IRExpr* next = assign_temp(p, Ity_I64, IRExpr_Get(next_at, Ity_I64));
  IRExpr* limit = assign_temp(p, Ity_I64, IRExpr_Get(p->guest_bytes + kShadowLimit, Ity_I64));
  IRExpr* full = assign_temp(p, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, limit, next));
  IRDirty* call = unsafeIRDirty_0_N(0, "ttq_room", VG_(fnptr_to_fnentry)(room), mkIRExprVec_0());
  call->guard = full;
  addStmtToIRSB(p->out, IRStmt_Dirty(call));
  p->record = newIRTemp(p->out->tyenv, Ity_I64);
  addStmtToIRSB(p->out, IRStmt_WrTmp(p->record, IRExpr_Get(next_at, Ity_I64)));
  addStmtToIRSB(p->out, IRStmt_Put(p->guest_bytes + kShadowRecord, IRExpr_RdTmp(p->record)));
  p->record_bytes = 4;
  p->header_exit = 0;
  for (Int j = i; j < in->stmts_used; j++)
    if (in->stmts[j]->tag == Ist_Exit) p->header_exit = 1;
  emit_header(p, p->header_exit);

  // VEX marks calls and returns by a hint that the stack below is dead, also those that it follows.
  Int last_call = -1;
  for (Int j = i; j < in->stmts_used; j++)
    if (in->stmts[j]->tag == Ist_AbiHint) last_call = j;
  for (; i < in->stmts_used; i++) {
    handle_statement(p, in->stmts[i]);
    if (in->stmts[i]->tag == Ist_AbiHint) {
      Bool returns = i == last_call && in->jumpkind == Ijk_Ret;
      log_vectors(p, returns ? kResults : kArguments);
    }
    if (in->stmts[i]->tag == Ist_IMark && p->instruction_count > 1)
      put_instruction_pointer(p, in->stmts[i], i + 1 < in->stmts_used ? in->stmts[i + 1] : NULL);
  }

  log_numbers(p);
  emit_exit(p, 0);
  add_effect(p, kTtqExit, 0, p->record_bytes, kTtqNoNode, kTtqNoNode);
  remove_dead_puts(p, first);

  UInt id = assign(encode(p));
  for (Int h = 0; h < p->header_count; h++) p->headers[h]->Ico.U32 |= id << kTtqExitBits;
  VG_(free)(p->definition);
  VG_(free)(p->node_of_temp);
  VG_(free)(p->failed_at);
  return p->out;
}
