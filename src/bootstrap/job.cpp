#include "bootstrap/job.h"

#include <cstdlib>

#include "bootstrap/launch_environment.h"
#include "bootstrap/pmix_job.h"
#include "bootstrap/single_job.h"

namespace echelon {
namespace {

LaunchEnvironment this_environment() {
  return read_launch_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace

std::unique_ptr<Job> bootstrap(Launch launch, double timeout_s) {
  const LaunchEnvironment environment = this_environment();
  check_launch(launch, environment);
  if (launch == Launch::kSingle) return std::make_unique<SingleJob>();
  return std::make_unique<PmixJob>(environment, timeout_s);
}

void require_no_wide_batch_script() {
  check_batch_script(this_environment());
}

bool inside_launched_step() {
  const LaunchEnvironment environment = this_environment();
  return !environment.pmix_namespace.empty() || environment.several_tasks();
}

}  // namespace echelon
