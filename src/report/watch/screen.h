#pragma once
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "report/watch/view.h"

namespace echelon::report {

/// The terminal of `echelon watch`: lines that are redrawn in place. At the end, however it comes, the
/// covered content is shown again. One object at a time.
class Screen : NotCopied {
 public:
  /// `redraws`: takes the whole terminal and shows each draw() in place of the last; else draw() appends.
  explicit Screen(bool redraws);
  ~Screen();

  /// Returns the terminal's size at the moment; for a pipe the usual 80 columns.
  [[nodiscard]] ViewSize size() const;
  void draw(const std::vector<std::string>& lines);
  /// Waits at most `seconds`; returns whether SIGINT, SIGTERM or SIGHUP came, also earlier.
  [[nodiscard]] bool wait(double seconds);

 private:
  bool redraws_;
};

}  // namespace echelon::report
