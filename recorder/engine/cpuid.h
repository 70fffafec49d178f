// SPDX-License-Identifier: MIT
//
// The processor that the program sees.

#ifndef TTQ_RECORDER_ENGINE_CPUID_H_
#define TTQ_RECORDER_ENGINE_CPUID_H_

#include <cstdint>

namespace ttq::engine {

// Executes cpuid on the program's registers. Clears the flags of what the engine cannot record, or
// only slowly: transactions, AVX-512 and AMX, wrfsbase and its like, and those that make libraries
// prefer repeated string instructions, of which each repetition is an instruction.
void EmulateCpuid(uint64_t* registers);

// Whether `loop` takes no longer than a branch and a subtraction.
bool LoopIsFast();
// Whether `and`, `or`, `xor` and `test` set the flag AF to the same whatever it was, where manuals
// call it undefined.
bool LogicSetsAuxiliary();

// The components of its state that the processor keeps, as xsave names them.
uint64_t EnabledComponents();
// How much memory xsave and its like write for the components `wanted`; `compact`: side by side.
unsigned StateBytes(uint64_t wanted, bool compact);
// The same of those that EmulateCpuid does not hide.
uint64_t EnabledStates();
uint32_t StateBytes();

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CPUID_H_
