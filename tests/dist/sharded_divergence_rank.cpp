#include <fstream>
#include <string>

#include "base/error.h"
#include "bootstrap/job.h"
#include "comm/mpi/mpi_world.h"
#include "dist/sequence.h"
#include "shard/sharded_model.h"

// One rank of a job in which the last rank leaves out a module (sharded_divergence.cpp). Writes its error's
// code and text to FOLDER/rank-R.
int main(int argc, char** argv) {
  using namespace echelon;
  if (argc != 2) return 2;
  const auto job = bootstrap(Launch::kPmix, 30.0);
  const JobInfo& info = job->info();
  std::string text = "no error";
  int code = 0;
  try {
    const auto comm = make_mpi_communicator(*job, 10.0);
    const bool last = info.rank == info.size - 1;
    ShardedModel model(std::make_unique<test::Sequence>(3, last ? std::vector{0, 2} : std::vector{0, 1, 2}),
                       *comm, {}, 5, at::kCPU);
    for (int pass = 0; pass < 2; ++pass) {
      (void)model.accumulate(test::batch_of(info.rank), 1.0, {});
      model.finish_gradients();
    }
  } catch (const Error& error) {
    text = error.what();
    code = static_cast<int>(error.code());
  }
  std::ofstream(std::string(argv[1]) + "/rank-" + std::to_string(info.rank)) << code << '\n' << text << '\n';
  job->exchange("written", {});  // nobody ends before all have told
  job->abort(7, text);
  return 7;
}
