#include "train/save/save_report.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "comm/blob_text.h"

namespace echelon {
namespace {

constexpr std::size_t kHead = 2;  // state, length of the id

}  // namespace

Blob encode(const SaveReport& report) {
  if (report.next_id.size() > std::numeric_limits<std::uint8_t>::max())
    throw Error(Code::kCheckpoint, "the id of a save has more than 255 characters");
  Blob bytes(kHead);
  bytes[0] = static_cast<std::byte>(report.state);
  bytes[1] = static_cast<std::byte>(report.next_id.size());
  for (const Blob& text : {to_blob(report.next_id), to_blob(report.error)})
    bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

SaveReport decode_save_report(const Blob& bytes) {
  const std::string text = to_text(bytes);
  const std::size_t id = text.size() < kHead ? 0 : std::to_integer<std::size_t>(bytes[1]);
  if (text.size() < kHead + id || bytes[0] > static_cast<std::byte>(SaveReport::State::kUncertain))
    throw Error(Code::kPeer, "a rank's report of its last save cannot be read");
  return {.state = static_cast<SaveReport::State>(bytes[0]),
          .next_id = text.substr(kHead, id),
          .error = text.substr(kHead + id)};
}

}  // namespace echelon
