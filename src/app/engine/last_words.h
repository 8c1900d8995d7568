#pragma once
#include "base/not_copied.h"
#include "comm/communicator.h"
#include "train/train_state.h"

namespace echelon::app {

/// If an error ends this rank's run, writes its memory use and the most recent collectives to its log. Create
/// it on the stack after everything that it describes.
class LastWords : NotCopied {
 public:
  /// `state` and `comm` must outlive this object.
  LastWords(const TrainState& state, const Communicator& comm);
  /// Writes only if destroyed by stack unwinding.
  ~LastWords();

 private:
  const TrainState& state_;
  const Communicator& comm_;
  int exceptions_;
};

}  // namespace echelon::app
