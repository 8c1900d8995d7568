#include "app/step.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/process.h"
#include "bootstrap/job.h"

namespace echelon::app {

void once_per_step(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (first_of_step()) throw;
    throw Error(error.code(), "");
  }
}

int local_ranks(int option) {
  if (!inside_launched_step()) return std::max(1, option);
  if (option != 0) {
    throw Error(Code::kUsage,
                "--ranks starts local ranks and has no place inside an srun or mpirun step: leave it out, "
                "the step's tasks are the ranks");
  }
  return 0;
}

}  // namespace echelon::app
