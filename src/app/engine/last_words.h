#pragma once
#include "comm/communicator.h"
#include "train/train_state.h"

namespace echelon::app {

/// When an error ends this rank's run: what it held in memory and the last operations between the ranks, to
/// its log.
class LastWords {
 public:
  /// Both outlive this object.
  LastWords(const TrainState& state, const Communicator& comm);
  /// Speaks when it is destroyed by an exception.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  const TrainState& state_;
  const Communicator& comm_;
  int exceptions_;
};

}  // namespace echelon::app
