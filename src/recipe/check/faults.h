#pragma once
#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace echelon::recipe {

/// A place in one of a recipe's texts. Lines and columns start at 1; columns count characters, not bytes.
struct Position {
  std::size_t source = 0;  ///< index into Sources
  int line = 1;
  int column = 1;
  auto operator<=>(const Position&) const = default;
};

/// The position of a fault that no line of the file causes; reported last, at the begin of the file.
inline constexpr Position kNowhere{0, 0, 0};

/// The texts of a recipe: its file, the files it includes, then the overrides of the command line.
class Sources {
 public:
  std::size_t add_file(std::string name);
  std::size_t add_override(std::string_view argument);

  [[nodiscard]] bool is_override(const Position& at) const;
  /// Returns a place for messages: "a.yaml:3:7", or "command line: 'optim.lr=abc'".
  [[nodiscard]] std::string where(const Position& at) const;
  /// Returns a place for LoadedRecipe::origins: "a.yaml:3:7", or "command line".
  [[nodiscard]] std::string origin(const Position& at) const;

 private:
  struct Source {
    std::string name;
    bool is_override = false;
  };
  std::vector<Source> sources_;
};

/// Collects faults, so that one run reports all of them. Not thread-safe.
class Faults {
 public:
  /// `text` is one line: what is wrong, what was expected, what to do.
  void add(const Position& at, std::string text);
  void add(const Faults& others);
  [[nodiscard]] std::size_t size() const { return count_; }
  /// Returns whether the limit is reached: further faults are only counted, so their texts need not be built.
  [[nodiscard]] bool full() const;
  /// Throws Error(kUsage) with one line for each fault, sorted by position. Returns if there are no faults.
  void raise_if_any(const Sources& sources) const;

 private:
  struct Fault {
    Position at;
    std::string text;
  };
  std::vector<Fault> faults_;
  std::size_t count_ = 0;
};

/// User text made safe for a message: in single quotes, control characters and invalid UTF-8 as \xNN,
/// truncated after 60 bytes.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace echelon::recipe
