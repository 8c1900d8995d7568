// ShardSummary <-> bytes, for the way from each rank to the committing one.
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/bytes.h"
#include "checkpoint/names.h"
#include "checkpoint/writer.h"

namespace echelon::checkpoint {
namespace {

constexpr std::uint32_t kMark = 0x53484345;  // "ECHS"

class Encoder {
 public:
  template <class T>
  void value(T number) {
    bytes_.resize(bytes_.size() + sizeof(T));
    put(std::span(bytes_), bytes_.size() - sizeof(T), number);
  }
  void text(const std::string& text) {
    value(static_cast<std::uint32_t>(text.size()));
    bytes_.resize(bytes_.size() + text.size());
    put_text(bytes_, bytes_.size() - text.size(), text);
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T value() {
    need(sizeof(T));
    at_ += sizeof(T);
    return get<T>(bytes_, at_ - sizeof(T));
  }
  std::string text() {
    const auto size = value<std::uint32_t>();
    need(size);
    at_ += size;
    return get_text(bytes_, at_ - size, size);
  }
  void expect_end() const {
    if (at_ != bytes_.size())
      throw Error(Code::kCheckpoint, "shard summary from another rank has extra bytes");
  }

 private:
  void need(std::size_t size) const {
    if (size > bytes_.size() - at_)
      throw Error(Code::kCheckpoint, "shard summary from another rank ends early");
  }
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::byte> encode(const ShardSummary& summary) {
  Encoder out;
  out.value(kMark);
  out.value(static_cast<std::int32_t>(summary.rank));
  out.text(summary.file);
  out.value(summary.file_bytes);
  out.value(summary.index_crc);
  out.value(static_cast<std::uint32_t>(summary.pieces.size()));
  for (const ShardSummary::Piece& piece : summary.pieces) {
    out.text(piece.tensor);
    out.value(piece.begin);
    out.value(piece.end);
  }
  return out.take();
}

ShardSummary decode_summary(std::span<const std::byte> blob) {
  Decoder in(blob);
  if (in.value<std::uint32_t>() != kMark) {
    throw Error(Code::kCheckpoint,
                "shard summary from another rank is not one: do all ranks run the same program?");
  }
  ShardSummary summary{.rank = in.value<std::int32_t>()};
  summary.file = in.text();
  summary.file_bytes = in.value<std::uint64_t>();
  summary.index_crc = in.value<std::uint32_t>();
  const auto pieces = in.value<std::uint32_t>();
  for (std::uint32_t i = 0; i < pieces; ++i) {
    ShardSummary::Piece piece{.tensor = in.text()};
    piece.begin = in.value<std::uint64_t>();
    piece.end = in.value<std::uint64_t>();
    summary.pieces.push_back(std::move(piece));
  }
  in.expect_end();
  return summary;
}

}  // namespace echelon::checkpoint
