#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpu/fibers/findings.h"

/// What kernels may see of memory, and who has seen it: for every two bytes the last write and the last
/// reads, so that accesses that nothing orders, reads of what nobody has written and accesses past an end are
/// found whatever order the threads ran in.
namespace echelon::fibers {

/// When a thread of a kernel does something: nothing but a barrier of its block, a new epoch, orders it
/// against the other threads of its launch.
struct Moment {
  std::uint32_t launch = 0;  ///< from 1; 0: never, or by the host
  std::uint32_t block = 0;
  std::uint32_t thread = 0;
  std::uint32_t epoch = 0;
};

enum class Access { kRead, kWrite };

/// What is wrong with an access.
struct Wrong {
  Kind kind;
  std::string what;
};

/// One piece of memory and its books. Two bytes, the smallest element, share an entry. A piece without books
/// is as if the host had written it.
class Piece {
 public:
  Piece() = default;
  Piece(std::size_t begin, std::size_t bytes) : begin_(begin), bytes_(bytes), cells_((bytes + 1) / 2) {}
  [[nodiscard]] static Piece without_books(std::size_t begin, std::size_t bytes);

  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return begin_ + bytes_; }
  /// Where the last bytes end that a thread has touched.
  [[nodiscard]] std::size_t touched_end() const { return touched_end_; }
  [[nodiscard]] bool holds(std::size_t at, std::size_t bytes) const {
    return at >= begin_ && at + bytes <= end();
  }

  /// Null: nothing is wrong with it. `per_block`: the memory is a block's, new with each.
  [[nodiscard]] std::optional<Wrong> touch(std::size_t at, std::size_t bytes, Access access,
                                           const Moment& now, bool per_block);
  /// The host has written it.
  void fill(std::size_t at, std::size_t bytes);
  /// Has anybody written all of it?
  [[nodiscard]] bool is_full(std::size_t at, std::size_t bytes) const;

 private:
  struct Cell {
    bool written = false;
    bool read_by_threads = false;  ///< by several of the block and epoch of `read`
    bool read_by_blocks = false;   ///< by several of the launch of `read`
    Moment write;
    Moment read;
  };
  [[nodiscard]] static std::optional<Wrong> read(Cell& cell, const Moment& now);
  [[nodiscard]] static std::optional<Wrong> write(Cell& cell, const Moment& now);

  std::size_t begin_ = 0;
  std::size_t bytes_ = 0;
  std::size_t touched_end_ = 0;
  std::vector<Cell> cells_;
};

/// Bytes of shared memory that a block has, and those of a kernel for which cudaFuncSetAttribute() asks (an
/// H100's).
inline constexpr std::size_t kMostShared = std::size_t{48} << 10;
inline constexpr std::size_t kMostSharedAsked = std::size_t{227} << 10;

/// Device memory, and the shared memory of the running block.
class Memory {
 public:
  static Memory& only();

  [[nodiscard]] void* allocate(std::size_t bytes);
  /// False: nothing begins there.
  [[nodiscard]] bool release(void* pointer);
  /// Zeros without books. Only pages that are touched take memory. Null: the system refuses.
  [[nodiscard]] void* reserve(std::size_t bytes);
  void unreserve(void* pointer);
  /// The piece that holds these bytes; null: none does.
  [[nodiscard]] Piece* find(const void* pointer, std::size_t bytes);
  /// An access by a thread of a kernel.
  [[nodiscard]] std::optional<Wrong> touch(const void* pointer, std::size_t bytes, Access access,
                                           const Moment& now);
  /// Dynamic shared memory of the launch that begins. `most`: with variables.
  [[nodiscard]] void* shared(std::size_t bytes, std::size_t most);
  /// Bytes of device memory that kernels have read so far.
  [[nodiscard]] std::size_t read_bytes() const { return read_bytes_; }

 private:
  [[nodiscard]] std::optional<Wrong> touch_shared(std::size_t at, std::size_t bytes, Access access,
                                                  const Moment& now);
  /// The launch uses this shared memory; false: with it, more than there is.
  [[nodiscard]] bool fits(const Piece& piece, std::uint32_t launch);
  [[nodiscard]] Wrong past_the_end(std::size_t at, std::size_t bytes) const;

  std::map<std::size_t, Piece> device_;  ///< by beginning
  std::map<std::size_t, Piece> shared_;  ///< variables of kernels, and dynamic shared memory
  std::set<std::size_t> used_;           ///< of shared_, those that the launch used_by_ has touched
  std::uint32_t used_by_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t most_shared_ = kMostShared;
  std::size_t read_bytes_ = 0;
  Piece* last_ = nullptr;  ///< of device_, found the last time
  std::vector<std::byte> dynamic_;
};

}  // namespace echelon::fibers
