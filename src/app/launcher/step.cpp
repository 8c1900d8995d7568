#include "app/launcher/step.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/process/process.h"
#include "bootstrap/job.h"

namespace echelon::app {
namespace {

/// A launcher ends all ranks once one has exited. The others wait this long, so that the first can report the
/// error.
constexpr std::chrono::seconds kTimeToTell{1};

}  // namespace

void once_per_step(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (first_of_step()) throw;
    std::this_thread::sleep_for(kTimeToTell);
    throw Error::already_reported(error.code());
  }
}

int local_ranks(int option) {
  if (!inside_launched_step()) return std::max(1, option);
  if (option != 0) {
    throw Error(Code::kUsage,
                "--ranks starts local ranks and cannot be used inside an srun or mpirun step: leave it out, "
                "the step's tasks are the ranks");
  }
  return 0;
}

}  // namespace echelon::app
