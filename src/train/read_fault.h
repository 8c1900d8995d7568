#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>

#include "comm/communicator.h"

namespace echelon {

/// The reason why a checkpoint was not restored; the same on every rank.
struct Fault {
  enum class Kind : std::uint8_t {
    kNone,
    kUnreadable,  ///< nothing is known about its content: a read error, or not every rank sees it
    kNoRoom,      ///< it may be whole, but a node has no room for its part of it
    kDamaged,
  };
  Kind kind = Kind::kNone;
  std::string text;
  auto fields() { return std::tie(kind, text); }
  [[nodiscard]] bool none() const { return kind == Kind::kNone; }
};

/// Tells whether all ranks read the same bytes in a body. If so, damage that only some find is not in the
/// content.
enum class Reads : std::uint8_t { kSame, kOwnPart, kFromNodes };

/// Runs `body` on every rank. Returns the fault that its Errors(kCheckpoint) make together: damage that one
/// rank has found, or else a lack of room, or what the first rank could not read. Any other exception ends
/// all ranks, as in agree(). `body` may take longer than a collective may wait, as long as it reads; what
/// comes from other nodes in any case. Collective.
[[nodiscard]] Fault fault_of(Communicator& comm, Reads reads, const std::function<void()>& body);

inline constexpr const char* kLeaveOnDisk = "move its folder away, and the run goes on from the one before";
inline constexpr const char* kLeaveInMemory =
    "`echelon-ckpt gc` removes what is in memory, and the run goes on from the disk";

/// Tries again what could not be read, and at last ends the start on every rank. `if_lost`: how a user goes
/// on without it. Collective.
[[nodiscard]] Fault patiently(const Communicator& comm, const std::string& what,
                              const std::function<Fault()>& attempt,
                              const std::string& if_lost = kLeaveOnDisk);

}  // namespace echelon
