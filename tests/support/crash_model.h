#pragma once
#include <cstdint>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/disk_tree.h"
#include "support/recording_disk.h"

namespace echelon::test {

/// What a loss of power may leave of a recorded history. The rules are those that POSIX allows, stricter than
/// any one file system (after ALICE, Pillai et al., OSDI 2014):
/// - what was written to a file, and its size, is certain once the file was flushed; until then every page of
///   4 KiB may be there or not, in any order, torn between sectors of 512 bytes, zero, or foreign bytes;
/// - a name that was made, changed or removed is certain once its folder was flushed; until then each such
///   change may have happened or not, whatever happened to the others; flushing a file says nothing about
///   its name;
/// - a rename inside a folder happens as a whole.
class CrashModel {
 public:
  /// `start`: what is there, and durable, before the history begins.
  explicit CrashModel(DiskTree start);

  void apply(const Operation& operation);

  /// How many changes are not certain, and the outcomes of each; outcome 0: nothing of it happened.
  [[nodiscard]] std::vector<int> uncertain() const;
  /// The tree when of each uncertain change that outcome came true.
  [[nodiscard]] DiskTree state(const std::vector<int>& outcomes) const;

  /// Outcomes worth trying: all where there are at most `most`, else none, all, each alone, all but each, and
  /// random ones up to `most`.
  [[nodiscard]] std::vector<std::vector<int>> outcomes_to_try(std::size_t most,
                                                              std::mt19937_64& random) const;

 private:
  enum class Kind { kPage, kSize, kNames };
  struct Change {
    Kind kind = Kind::kPage;
    int node = DiskTree::kNone;
    std::uint64_t offset = 0;
    DiskTree::Bytes bytes;                           ///< kPage
    std::uint64_t size = 0;                          ///< kSize: the new size
    bool grows_only = false;                         ///< kSize: of a reservation
    std::vector<std::pair<std::string, int>> names;  ///< kNames: entry -> node or kNone
  };

  void opened(const Operation& operation);
  void written(const Operation& operation);
  void named(int folder, std::vector<std::pair<std::string, int>> names);
  void renamed(const Operation& operation);
  void flushed(int node);
  [[nodiscard]] static int outcomes(const Change& change);
  static void happen(const Change& change, int outcome, DiskTree& tree);

  DiskTree visible_;  ///< names as a program saw them, no content
  DiskTree durable_;  ///< the same nodes; what is certain
  std::vector<Change> changes_;
  std::unordered_map<int, int> files_;  ///< handle -> node
};

}  // namespace echelon::test
