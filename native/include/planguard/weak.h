// Open orders whose waits lie in bags: are rounds in order, and can some order get stuck?
#pragma once
#include <cstdint>

#include "planguard/lanes.h"

namespace planguard {

enum class OpenStatus : uint32_t {
  fine = 0,          // rounds in order; or no order gets stuck
  swappable = 1,     // two calls of one queue may change places
  inapplicable = 2,  // chains, edges or lanes that this check does not read
  stuck = 3,         // some order gets stuck
};

struct OpenRounds {
  OpenStatus status = OpenStatus::fine;
  uint32_t rank = 0, first = 0, second = 0;  // the entries that may change places
  bool mixed = false;                        // something in a block may wait
};

// What an action inside a block of several is, by op byte: it may wait, it never waits, or its
// effect depends on its place.
enum class InBlock : uint8_t { waits = 0, free = 1, refused = 2 };

// `queue` is the class of every channel: channels of one class are one queue.
OpenRounds open_rounds(const Columns& columns, View<uint32_t> queue, View<uint8_t> in_block);

struct WeakOrders {
  OpenStatus status = OpenStatus::fine;
  uint64_t left = 0;  // bags that may never be passed
};

WeakOrders weak_orders(const Columns& columns, const Lanes& lanes);

}  // namespace planguard
