#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "comm/activity.h"

namespace echelon {

/// Kind of a frame, sent by a rank to rank 0's hub, or by the hub to a rank.
enum class FrameKind : std::uint32_t {
  kHello = 1,  ///< first of a connection: rank and process number
  kBeat,       ///< rank: alive; carries `sign`
  kLeaving,    ///< rank: ends normally, or reports its own failure
  kAnswer,     ///< rank: `text` answers kShowStack or kLookAt
  kAck,        ///< hub: received beat `number`; `sign.awaited` is a rank of a node that is silent, if any
  kShowStack,  ///< hub: log the stack of the training thread and answer with its innermost frames
  kLookAt,     ///< hub: answer with the state of process `process`, on the same node
  kVerdict,    ///< hub: the run ends; `text` is the cause
  kClosing,    ///< hub: ends normally; stop watching it
};

/// The contents of a heartbeat.
struct Sign {
  Activity::Now now;
  double round_trip_s = 0;    ///< median of recent beats; 0: unknown
  std::int32_t awaited = -1;  ///< rank that was waited for longest since the last beat; -1: none or unknown
  double awaited_share = 0;   ///< fraction of the time that was spent waiting for its node
};

/// The only message format of the heartbeat connections, in both directions. Sent as raw bytes, because both
/// ends are the same build (Opening::kVersion), which the handshake before the first frame has proven.
struct Frame {
  FrameKind kind = FrameKind::kBeat;
  std::int32_t rank = 0;
  std::uint64_t number = 0;  ///< of a beat: 1, 2, ...
  std::int64_t process = 0;
  Sign sign;
  char text[1024] = {};  ///< zero-terminated

  [[nodiscard]] std::string_view text_view() const { return {text}; }
  /// What does not fit is cut off.
  void set_text(std::string_view value) { text[value.copy(text, sizeof(text) - 1)] = '\0'; }
};
static_assert(std::is_trivially_copyable_v<Frame>);

}  // namespace echelon
