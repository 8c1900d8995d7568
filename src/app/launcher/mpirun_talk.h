#pragma once
#include <string>
#include <string_view>

namespace echelon::app {

/// Takes out of a stream what the mpirun of Open MPI 5 says of a rank that has failed, between two lines of
/// dashes, and what its libevent warns of while a rank ends: the rank has told by itself, and that mpirun
/// cannot be told to be quiet. All else passes unchanged.
class MpirunTalk {
 public:
  /// What can be passed on by now. What may yet become such a text is kept back: never more than its
  /// beginning.
  [[nodiscard]] std::string pass(std::string_view bytes);
  /// At the end of the stream: what was kept back.
  [[nodiscard]] std::string rest();

 private:
  enum class Within { kNothing, kLine, kTalk, kWarning };
  Within within_ = Within::kNothing;
  std::string held_;
};

}  // namespace echelon::app
