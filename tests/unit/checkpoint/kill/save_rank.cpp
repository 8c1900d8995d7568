// One rank of a run that does nothing but save:
//   save_rank ROOT RANK RANKS ATTEMPT FIRST_STEP STEPS
// Saves the steps one after the other as the trainer does, through RankSave. Rank 0 writes "<step>\n" to
// standard output when a step is committed and prunes then. Ends with 0 when all are saved.
#include "unit/checkpoint/kill/save_rank.h"

#include <unistd.h>

#include <cstdio>

#include "checkpoint/folder/run_folder.h"
#include "checkpoint/write/rank_save.h"
#include "checkpoint/write/shard_plan.h"

namespace {

using namespace echelon::checkpoint;        // NOLINT
using namespace echelon::checkpoint::test;  // NOLINT
using echelon::str;

/// What this start has read whole, in place of the trainer's restore, and what it has saved.
KnownSteps known;  // NOLINT(*-avoid-non-const-global-variables)

void committed(const TinyRun& run, std::int64_t step, const std::string& name) {
  const std::string line = str(step, '\n');
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(3);
  known.readable.insert(name);
  prune(run.checkpoints(), {.keep_last = kKept}, known);
}

int save_all(const TinyRun& run, int rank, int attempt, std::int64_t first, std::int64_t steps) {
  const auto staging = std::make_shared<Staging>(0);
  std::string resumed_from;
  for (const Found& found : list(run.checkpoints())) {
    if (!found.committed) continue;
    known.readable = {found.folder.filename()};
    resumed_from = Reader(found.folder).save_id();
  }
  for (std::int64_t step = first; step < first + steps; ++step) {
    Example what = run.example(step);
    what.save_id = save_id_of(attempt, step);
    std::map<std::string, std::vector<std::byte>> contents;
    for (const TensorInfo& tensor : what.tensors) contents[tensor.name] = TinyRun::content(tensor, step);
    const std::vector<Slice> slices = slices_of(what, rank, contents);
    const std::string name = step_folder_name(step, what.save_id);
    CommitInfo commit = commit_info(what);
    commit.resumed_from = resumed_from;
    RankSave save({.folder = run.checkpoints() / name,
                   .commit = std::move(commit),
                   .timeout_s = 60,
                   .on_commit = [&] { committed(run, step, name); }},
                  plan_shard(rank, run.ranks, what.save_id, slices), slices, staging);
    save.stage();
    const RankSave::Status status = save.wait(60);
    if (status.state != RankSave::State::kDone) {
      std::fprintf(stderr, "rank %d, step %ld: %s\n", rank, static_cast<long>(step), status.error.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  try {
    return save_all({.root = argv[1], .ranks = std::atoi(argv[3])}, std::atoi(argv[2]), std::atoi(argv[4]),
                    std::atoi(argv[5]), std::atoi(argv[6]));
  } catch (const echelon::Error& e) {
    std::fprintf(stderr, "rank %s: %s\n", argv[2], e.what());
    return 1;
  }
}
