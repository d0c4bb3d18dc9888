// What a pickle of a recording may not do to whoever reads it.
#pragma once

#include <cstdint>

#include "planguard/columns.h"

namespace planguard {

// The place of the first opcode that makes a dictionary key of anything but short text, makes a
// set, or that the stack has nothing for; -1 if there is none up to STOP, or up to what every
// reader of recordings refuses by itself: a global, an object, the end of the data.
int64_t refused_opcode(View<uint8_t> data);

}  // namespace planguard
