// usage: resave REQUESTS.json      (alone, or as the ranks of an mpirun step)
//
// Brings the training state in and out of checkpoints under any number of ranks and any strategy:
//   {"cases": [{"recipe": "x.yaml", "overrides": [...], "from": "run folder or nothing", "to": "run folder",
//               "next": "run folder", "step": 3}]}
// Each case takes the newest checkpoint in "from", or else trains to "step"; saves that state in "to"; then
// trains one step more, which leaves its loss (metrics.jsonl) and a checkpoint in "next".
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/str.h"
#include "data/loader.h"
#include "job.h"
#include "recipe/load.h"
#include "shard/sharded_model.h"
#include "train/loop.h"
#include "train/restore.h"

namespace echelon {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;

/// One rank's state and what brings it on.
class Trainer {
 public:
  Trainer(const Recipe& recipe, Communicator& comm)
      : recipe_(recipe),
        comm_(comm),
        data_(make_loader(recipe.data, recipe.model.vocab_size, static_cast<std::uint64_t>(recipe.run.seed))),
        model_(build_model(recipe.model, resolve(recipe.precision).types(), at::kCPU, recipe.lora), comm,
               {.shard = recipe.shard, .precision = recipe.precision},
               static_cast<std::uint64_t>(recipe.run.seed), at::kCPU),
        optim_(std::make_unique<Optimizer>(recipe.optim, model_)),
        ema_(make_ema(recipe.optim, model_)),
        state_{.model = model_, .optim = *optim_, .data = *data_, .ema = ema_.get()} {}

  [[nodiscard]] std::int64_t step() const { return state_.step; }

  void restore(const Path& from) {
    const RunFolder folder(from, false);
    if (!restore_latest(recipe_.checkpoint, folder, comm_, state_))
      throw Error(Code::kCheckpoint, str("nothing to load in '", from.string(), "'"));
  }

  void save(const Path& to) {
    const RunFolder folder(to, false);
    Checkpointer checkpointer(recipe_.checkpoint, folder, comm_, {});
    checkpointer.prepare(state_, state_.step);
    checkpointer.save(state_, true);
  }

  /// To `step`, which is saved.
  void train(std::int64_t step, const Path& to) {
    const RunFolder folder(to, false);
    Checkpointer checkpointer(recipe_.checkpoint, folder, comm_, {});
    LoopOptions options{.train = recipe_.train,
                        .optim = recipe_.optim,
                        .schedule = recipe_.schedule,
                        .metrics = recipe_.metrics,
                        .data = recipe_.data};
    options.train.steps = step;
    MetricsFile metrics;
    if (comm_.rank() == 0) metrics = MetricsFile(folder.metrics(), state_.step);
    Progress progress(Progress::Style::kNone, state_.step + 1, step);
    const StopSignal signal;
    AgreedStop stop(signal, comm_);
    Deadline deadline({});
    Ledger ledger;
    const LoopParts parts{.state = state_,
                          .checkpointer = checkpointer,
                          .comm = comm_,
                          .stop = stop,
                          .folder = folder,
                          .progress = progress,
                          .metrics = metrics,
                          .deadline = deadline,
                          .ledger = ledger};
    if (TrainLoop(options, parts).run() != RunEnd::kFinished) throw Error(Code::kRequeue, "stopped");
  }

 private:
  const Recipe& recipe_;
  Communicator& comm_;
  std::unique_ptr<Loader> data_;
  ShardedModel model_;
  std::unique_ptr<Optimizer> optim_;
  std::unique_ptr<Ema> ema_;
  TrainState state_;
};

void run_case(const Json& request, Communicator& comm) {
  const Recipe recipe = load_recipe(request.at("recipe").get<std::string>(),
                                    request.at("overrides").get<std::vector<std::string>>())
                            .recipe;
  validate_for_size(recipe, comm.size());
  Trainer trainer(recipe, comm);
  const auto from = request.at("from").get<std::string>();
  const auto to = request.at("to").get<std::string>();
  if (from.empty()) {
    trainer.train(request.at("step").get<std::int64_t>(), to);
  } else {
    trainer.restore(from);
    trainer.save(to);
  }
  trainer.train(trainer.step() + 1, request.at("next").get<std::string>());
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  return echelon::run_cases(argc, argv, echelon::run_case);
}
