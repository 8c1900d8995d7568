#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echelon::test {

/// Folders and files in memory. A value: copies share contents until one of them changes.
class DiskTree {
 public:
  static constexpr int kNone = -1;
  static constexpr int kRoot = 0;
  using Bytes = std::vector<std::byte>;

  struct Node {
    bool folder = false;
    std::shared_ptr<Bytes> bytes;        ///< null: an empty file
    std::map<std::string, int> entries;  ///< name -> node
  };

  /// Holds the folder `folder`, an absolute path, and those above it.
  explicit DiskTree(std::string_view folder);

  /// The node that `path` names, or kNone. "." and empty parts name the folder they stand in.
  [[nodiscard]] int find(std::string_view path) const;
  /// The folder in which the last part of `path` is an entry, kNone when there is none, and that part.
  [[nodiscard]] std::pair<int, std::string> place_of(std::string_view path) const;
  /// The node called `name` in a folder, or kNone.
  [[nodiscard]] int entry(int folder, const std::string& name) const;

  [[nodiscard]] const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::uint64_t size(int file) const;
  /// Nodes are never given away again: a removed file can still be open.
  int add(bool folder);
  /// Number of nodes there ever were.
  [[nodiscard]] int count() const { return static_cast<int>(nodes_.size()); }
  /// Sets an entry; kNone removes it.
  void link(int folder, const std::string& name, int node);
  /// The content of a file, this tree's own from now on.
  Bytes& change(int file);
  /// Puts `bytes` at `offset`, zeros in front where the file is shorter.
  void write(int file, std::uint64_t offset, const std::byte* bytes, std::size_t size);

  /// Changes with every name and every byte that can be reached from the root.
  [[nodiscard]] std::uint64_t fingerprint() const;
  /// All paths with sizes, one a line; for messages.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Node> nodes_;
};

}  // namespace echelon::test
