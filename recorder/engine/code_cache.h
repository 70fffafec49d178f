// SPDX-License-Identifier: MIT
//
// Translations kept from one run of a program to the next, in a file under the user's cache: most
// of what a short program costs to record is translation. Only of processes whose inputs are
// recorded: there is one file for each executable, and a process writes it when it ends and has
// translated much that the file does not have.
//
// Nothing about files or versions is trusted. A translation is used where memory holds the very
// bytes that it was made from, at the same address, and all that the translator looked at besides;
// and where its own bytes have the hash that they were written with. One that is used is copied
// into the tables of dispatch.cc and counted as if it had been made then, so that a second run,
// which uses no file, comes to the same places. docs/engine.md has the layout.

#ifndef TTQ_RECORDER_ENGINE_CODE_CACHE_H_
#define TTQ_RECORDER_ENGINE_CODE_CACHE_H_

#include "recorder/engine/translator.h"

namespace ttq::engine::code_cache {

// Files are PREFIX and a hash of the executable and the engine. REQUIRES: SetUpCode, and nothing is
// translated yet.
void Open(const char* prefix, const char* executable);
// Translations can be put into a file when the process ends.
bool IsOn();
// Gives the kept translation of what memory has at `pc`, which has `number` in the tables from now
// on; false: there is none.
bool Take(uint64_t pc, uint32_t number, Superblock* out);
// The one that was taken whose code, with its checks before it, holds `code`; null: none.
const Superblock* Find(uint64_t code);
// All translations are given up: from now on nothing is taken, and no file is written.
void Close();
// Writes the file, if that pays. Nothing may be executed or translated afterwards.
void Save();

}  // namespace ttq::engine::code_cache

#endif  // TTQ_RECORDER_ENGINE_CODE_CACHE_H_
