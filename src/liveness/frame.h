#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "comm/activity.h"

namespace echelon {

/// What a frame is about. From ranks to rank 0's hub, and back.
enum class FrameKind : std::uint32_t {
  kHello = 1,  ///< first of a connection: token, rank and process number
  kBeat,       ///< rank: alive; `now` and the round trip of the beat before
  kLeaving,    ///< rank: ends in good order, or reports its own failure itself
  kAnswer,     ///< rank: `text` answers a question
  kAck,        ///< hub: beat `number` has come
  kShowStack,  ///< hub: write the stack of your training thread to your log and answer with its top
  kLookAt,     ///< hub: what does the system say of process `process`, a neighbour of yours?
  kVerdict,    ///< hub: the run ends; `text` is why
  kClosing,    ///< hub: ends in good order; watch no longer
};

/// The one message of the heartbeat connections, both ways. Plain bytes between processes of the same build;
/// the hello's token keeps strangers out.
struct Frame {
  FrameKind kind = FrameKind::kBeat;
  std::int32_t rank = 0;
  std::uint64_t number = 0;  ///< beats: 1, 2, ...
  std::int64_t process = 0;
  std::int32_t awaited = -1;  ///< rank that most was waited for since the last beat; -1: none, or unknown
  double awaited_share = 0;   ///< of the time, for that rank and the others of its node
  double round_trip_s = 0;    ///< median of the last beats; 0: unknown
  Activity::Now now;
  std::array<char, 16> token{};
  char text[1024] = {};  ///< zero-terminated

  [[nodiscard]] std::string_view text_view() const { return {text}; }
  void set_text(std::string_view value);  ///< cut where it is too long
};
static_assert(std::is_trivially_copyable_v<Frame>);

}  // namespace echelon
