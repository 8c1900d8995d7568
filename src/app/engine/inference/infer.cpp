#include "app/engine/inference/infer.h"

#include "app/engine/accelerator.h"
#include "app/engine/rank_error.h"
#include "app/engine/threads.h"
#include "app/report_error.h"
#include "base/terminal/machine_output.h"
#include "bootstrap/options.h"
#include "comm/mpi/mpi_world.h"
#include "model/ops/products/compiled_products.h"

namespace echelon::app {
namespace {

constexpr const char* kOutOfMemory =
    "out of memory: the weights are kept in fp32; distribute them over more ranks (--ranks), or use fewer "
    "prompts or beams";
constexpr auto kTimeout_s = static_cast<double>(ClusterOptions{}.timeout_s);

void run_rank(Job& job, TrainDevice device, const std::function<void(const InferencePlace&)>& body,
              std::unique_ptr<Communicator>& between_devices) {
  set_threads(0, job.info());
  const Compute compute = choose_compute({.device = device}, job, "--device");
  const auto comm = make_mpi_communicator(job, kTimeout_s);
  between_devices = device_communicator(compute, job, kTimeout_s, {});
  body({*comm, between_devices.get(), compute.device});
}

}  // namespace

int infer(const InferenceRequest& request, const std::function<void(const InferencePlace&)>& body) {
  MachineOutput output(request.json);
  const auto fail = [&output](const Error& error, const std::string& where) {
    output.report(error);
    return report_error(error, where);
  };
  // Each text has new shapes, so oneDNN would fill its cache with products that are not used again.
  ops::keep_compiled_products(ops::products_worth_keeping(1, 1, kernels::bf16_products()));
  try {
    const auto job = bootstrap(request.launch, kTimeout_s);
    std::unique_ptr<Communicator> between_devices;  // outlives an error, until it is reported
    try {
      run_rank(*job, request.device, body, between_devices);
      between_devices.reset();
      finish_mpi();
      job->finish();
      return 0;
    } catch (...) {
      const Error error = current_error(kOutOfMemory);
      const int status = fail(error, where(*job));
      job->abort(status, error.what());
      if (between_devices) end_process(status);
      return status;
    }
  } catch (const Error& error) {
    return fail(error, "");
  }
}

}  // namespace echelon::app
