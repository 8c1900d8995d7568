#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/stand_in/books.h"

namespace echelon::stand_in {

class Machine;

/// What can be left out, to see whether a test notices.
enum class Order { kRecord, kStreamWait, kQuery, kSettle, kDevice };

/// A place in the program that calls for an order: its callers in the library that the program is tested as,
/// by their offsets.
struct Site {
  Order order{};
  std::vector<std::ptrdiff_t> callers;
  auto operator<=>(const Site&) const = default;
};
/// "cudaEventRecord called at +0x12ab +0x34cd": offsets for addr2line.
[[nodiscard]] std::string describe(const Site& site);

/// What a rank meets at a call.
enum class Fate {
  kGoesOn,
  kHangs,
  kFails,   ///< the call returns an error
  kBreaks,  ///< it hangs, and NCCL tells the other ranks so: their communicators have an error
};

[[nodiscard]] inline Books::Name named(const std::string& text) {
  return std::make_shared<const std::string>(text);
}

/// A moment in a stream.
struct Record {
  bool passed = false;
  std::uint64_t at = 0;  ///< operations that the machine had run before
  Clock clock;
};

struct Operation {
  Books::Name name{};
  std::vector<Range> reads{};
  std::vector<Range> writes{};
  std::function<void()> run{};
  std::function<bool()> ready{};     ///< empty: at once
  std::shared_ptr<Record> awaits{};  ///< null: nothing
  std::shared_ptr<Record> record{};  ///< passes with it
  bool frees = false;                ///< what it writes
  const void* owner = nullptr;       ///< the communicator it belongs to
  bool has_place = false;            ///< with an owner: it is among those that run on the device
  Clock issued{};                    ///< what the issuing thread knew
};

struct Stream {
  Machine* machine = nullptr;
  int rank = 0;
  int timeline = 0;
  Clock clock;
  std::deque<Operation> queue;
  double pace = 1;
  bool destroyed = false;
};

struct Event {
  Machine* machine = nullptr;
  int rank = 0;
  std::shared_ptr<Record> last;
  bool timed = false;
  bool destroyed = false;
};

/// A thread that makes calls.
struct Host {
  Machine* machine = nullptr;
  int rank = -1;  ///< -1: a thread of its own making
  int timeline = 0;
  Clock clock;
};

}  // namespace echelon::stand_in
