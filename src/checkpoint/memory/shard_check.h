#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/shard_index.h"
#include "checkpoint/memory/shard_service.h"

namespace echelon::checkpoint {

/// Checks a shard whose bytes arrive in order, from the first to the last: its index, the checksum of each
/// block, and that of what lies between tensors. Nothing that take() returned from need be read again.
class ShardCheck {
 public:
  /// What is known of a shard from elsewhere than where it comes from.
  struct Told {
    std::optional<std::uint32_t> index_crc = {};
    std::optional<std::uint32_t> blocks_crc = {};
  };
  /// `what` names the shard in errors.
  ShardCheck(WantedShard wanted, Told told, std::string what);

  /// Throws Error(kCheckpoint) for bytes that are not those that were saved.
  void take(std::span<const std::byte> bytes);
  /// Throws Error(kCheckpoint) unless all bytes have been taken.
  void finish() const;

 private:
  void take_index(std::span<const std::byte>& bytes);
  void take_rest(std::span<const std::byte> bytes);

  WantedShard wanted_;
  Told told_;
  std::string what_;
  std::vector<std::byte> head_;  ///< of the index, until it is complete
  std::optional<ShardIndex> index_;
  std::uint64_t at_ = 0;  ///< bytes of the file that were checked
  std::uint32_t block_ = 0;
  std::uint32_t between_ = 0;
};

/// Reads a whole shard in order. Throws what `take` throws, and Error(kCheckpoint).
void read_in_order(const std::filesystem::path& shard,
                   const std::function<void(std::span<const std::byte>)>& take);

}  // namespace echelon::checkpoint
