#include "bootstrap/job.h"

#include <cstdlib>

#include "base/net/node_layout.h"
#include "base/process/process.h"
#include "bootstrap/launch_environment.h"
#include "bootstrap/pmix_job.h"

namespace echelon {
namespace {

/// The job of one process: exchanges return at once.
class SingleJob final : public Job {
 public:
  SingleJob() {
    const std::string host = host_name();
    info_ = place_rank(0, {host.empty() ? "localhost" : host});
    info_.launcher = "single";
  }
  [[nodiscard]] std::vector<Blob> exchange(std::string_view, const Blob& mine) override { return {mine}; }
  void fence(std::string_view) override {}
  void abort(int, const std::string&) override {}  // no other rank to end
  void finish() override {}
};

LaunchEnvironment this_environment() {
  return read_launch_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace

JobInfo place_rank(int rank, const std::vector<std::string>& hosts) {
  const NodeLayout layout(hosts);
  const int node = layout.node_of(rank);
  return {.rank = rank,
          .size = layout.ranks(),
          .local_rank = static_cast<int>(layout.place_of(rank)),
          .local_size = static_cast<int>(layout.ranks_of(node).size()),
          .node = node,
          .num_nodes = layout.nodes(),
          .host = layout.host_of(node),
          .hosts = hosts,
          .launcher = {}};
}

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
