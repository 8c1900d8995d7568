#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "base/not_copied.h"
#include "liveness/judge.h"

namespace echelon {

/// Keeps logs/nodes.json, which shows people the last state of each node that rank 0 received: {"time":
/// 1795502901.4, "nodes": [{"host": "n0", "ranks": 2, "silent_s": 0.4, "step": 120, "state": "alive"}]}. A
/// thread of its own writes it, because the caller must not wait for a disk. Failed writes are ignored.
class NodesFile : NotCopied {
 public:
  explicit NodesFile(std::filesystem::path file);
  /// Does not wait for a write under way.
  ~NodesFile();

  /// Returns at once; what a newer call replaces before it is written is never written.
  void show(const std::vector<NodeState>& nodes);

 private:
  struct Book;
  std::shared_ptr<Book> book_;  ///< shared with the thread, which a disk may hold up
};

}  // namespace echelon
