#include "app/engine/last_words.h"

#include <exception>

#include "base/log.h"
#include "train/measure/memory_report.h"

namespace echelon::app {
namespace {

void note_operations(const Communicator& group) {
  for (const std::string& operation : group.recent()) log::note(operation);
}

}  // namespace

LastWords::LastWords(const TrainState& state, const Communicator& comm)
    : state_(state), comm_(comm), exceptions_(std::uncaught_exceptions()) {}

LastWords::~LastWords() {
  if (std::uncaught_exceptions() == exceptions_) return;
  log::note(describe(memory_report(state_), true));
  note_operations(comm_);
  const Groups& groups = state_.model.groups();
  if (&groups.shard() != &comm_) note_operations(groups.shard());
  if (groups.replicate() != nullptr && groups.replicate() != &comm_) note_operations(*groups.replicate());
}

}  // namespace echelon::app
