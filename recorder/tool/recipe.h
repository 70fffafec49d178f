// SPDX-License-Identifier: GPL-2.0-or-later
//
// Turning one superblock's IR into a recipe and the code that logs its slots.

#ifndef TTQ_RECORDER_TOOL_RECIPE_H_
#define TTQ_RECORDER_TOOL_RECIPE_H_

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"
#include "recorder/stream.h"

// Where in the first shadow area of a thread's guest state the log keeps its words. No shadow
// registers are used for anything else.
enum { kShadowNext = 16, kShadowLimit = 24, kShadowRecord = 32 };

// Instruments `in`. `recipe` receives the encoded recipe, whose id `assign` gives (it may be one
// given before, when the recipe is the same). `room` is called by the new code when the next
// record might not fit.
IRSB* ttq_instrument_superblock(IRSB* in, const VexGuestLayout* layout,
                                UInt (*assign)(const TtqRecipe* recipe), void (*room)(void));

#endif  // TTQ_RECORDER_TOOL_RECIPE_H_
