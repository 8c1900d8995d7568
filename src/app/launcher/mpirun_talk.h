#pragma once
#include <string>
#include <string_view>

namespace echelon::app {

/// Filters the standard error of Open MPI 5's mpirun. Removes its reports about failed ranks, which stand
/// between two lines of dashes, and libevent's warnings while a rank ends. The rank has reported its error
/// itself, and this mpirun has no quiet option. Other text passes unchanged. Not thread-safe.
class MpirunTalk {
 public:
  /// Adds `bytes` and returns the text that can be passed on. Holds back only what may be the beginning of a
  /// text to remove.
  [[nodiscard]] std::string pass(std::string_view bytes);
  /// At the end of the stream: returns what was held back.
  [[nodiscard]] std::string rest();

 private:
  enum class Within { kNothing, kLine, kTalk, kWarning };
  Within within_ = Within::kNothing;
  std::string held_;
};

}  // namespace echelon::app
