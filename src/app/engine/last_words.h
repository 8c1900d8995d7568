#pragma once
#include "comm/communicator.h"
#include "train/train_state.h"

namespace echelon::app {

/// If an error ends this rank's run, writes its memory use and the most recent collectives to its log. Create
/// it on the stack after everything that it describes.
class LastWords {
 public:
  /// `state` and `comm` must outlive this object.
  LastWords(const TrainState& state, const Communicator& comm);
  /// Writes only if destroyed by stack unwinding.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  const TrainState& state_;
  const Communicator& comm_;
  int exceptions_;
};

}  // namespace echelon::app
