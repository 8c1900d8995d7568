#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace echelon::stand_in {

/// How far each timeline (a host thread, a stream) has been seen, by the timeline's number. What is missing
/// is 0.
using Clock = std::vector<std::uint32_t>;

void join(Clock& into, const Clock& from);

struct Range {
  const void* memory = nullptr;
  std::size_t bytes = 0;
};

/// Who touched which bytes when: an access that is not ordered after an earlier one to the same bytes, of
/// which one writes, is a fault, whether or not it came out well this time. Not thread-safe.
class Books {
 public:
  using Name = std::shared_ptr<const std::string>;

  /// A timeline's number.
  [[nodiscard]] int open() { return timelines_++; }

  /// `seen`: what the access comes after; its own timeline's entry is its moment. Returns the fault, or "".
  [[nodiscard]] std::string reads(int timeline, const Clock& seen, Range range, const Name& what);
  [[nodiscard]] std::string writes(int timeline, const Clock& seen, Range range, const Name& what);
  /// A write after which nobody may touch these bytes, until `fresh`.
  [[nodiscard]] std::string frees(int timeline, const Clock& seen, Range range, const Name& what);
  /// Memory that nobody has touched.
  void fresh(Range range);

 private:
  struct Access {
    std::uint32_t moment = 0;
    Name what;
  };
  struct Cell {
    std::uintptr_t end = 0;
    int writer = -1;
    Access written;
    std::map<int, Access> readers;  ///< since it was written
    bool freed = false;
  };
  using Cells = std::map<std::uintptr_t, Cell>;

  /// What is wrong with an access after the cell's last write, or "".
  static std::string against_writer(const Cell& cell, const Clock& seen, const Name& what, const char* does);
  /// Cells that cover exactly the range.
  std::pair<Cells::iterator, Cells::iterator> cut(Range range);
  void cut_at(std::uintptr_t at);

  Cells cells_;
  int timelines_ = 0;
};

}  // namespace echelon::stand_in
