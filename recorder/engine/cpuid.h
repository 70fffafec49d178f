// SPDX-License-Identifier: MIT
//
// The processor that the program sees.

#ifndef TTQ_RECORDER_ENGINE_CPUID_H_
#define TTQ_RECORDER_ENGINE_CPUID_H_

#include <cstdint>

namespace ttq::engine {

// The cpuid instruction on the program's registers. Left out is what cannot be recorded, or only
// slowly: transactions, AVX-512 and AMX, wrfsbase and its like, and the flags that have libraries
// prefer repeated string instructions, each of whose repetitions is an instruction.
void EmulateCpuid(uint64_t* registers);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CPUID_H_
