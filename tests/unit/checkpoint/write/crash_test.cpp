// What a loss of power leaves: a history of saves and removals is recorded call by call, and after every call
// every state that the disk may be in is opened as the next start of the run would open it.
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <unordered_set>

#include "checkpoint/folder/run_folder.h"
#include "support/crash_model.h"
#include "support/long_form.h"
#include "support/memory_disk.h"
#include "unit/checkpoint/tiny_run.h"

namespace echelon::checkpoint {
namespace {

using namespace test;  // NOLINT

using History = std::vector<Operation>;

constexpr std::int64_t kKeep = 2;
constexpr std::int64_t kLastStep = 4;

/// Both ranks write at the same time: their calls, each rank's in its order, in an order of their own.
History interleave(const History& one, const History& other, std::mt19937_64& random) {
  History both;
  auto a = one.begin();
  auto b = other.begin();
  while (a != one.end() || b != other.end()) {
    const bool first = b == other.end() || (a != one.end() && random() % 2 == 0);
    both.push_back(first ? *a++ : *b++);
  }
  return both;
}

/// Saves of steps 1 to kLastStep by two ranks, a save that never ends, and the removal of old ones. `seed`:
/// of the order in which the ranks' calls come. Notes "committed <step>" stand where commit() had returned,
/// "keep <step>" where prune() was called.
History record(unsigned seed = 1) {
  MemoryDisk disk(DiskTree("/"));
  InUse<RecordingDisk> recording(disk);
  std::mt19937_64 random(seed);
  const TinyRun run;
  History history;
  std::size_t taken = 0;
  const auto take = [&] {
    const History all = recording.operations();
    History fresh(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end());
    taken = all.size();
    return fresh;
  };
  const auto append = [&](const History& more) { history.insert(history.end(), more.begin(), more.end()); };
  for (std::int64_t step = 1; step <= kLastStep; ++step) {
    run.begin(step);
    append(take());
    run.write(step, 0);
    const History rank_0 = take();
    run.write(step, 1);
    append(interleave(rank_0, take(), random));
    run.finish(step);
    recording.note(str("committed ", step));
    recording.note(str("keep ", step - kKeep + 1));
    run.prune(kKeep);
    if (step == 2) {  // an attempt of the next step that its rank 1 does not live to end
      const Path folder = run.checkpoints() / step_folder_name(3, "deadbeef");
      fs::make_directories(folder, Code::kCheckpoint);
      (void)write_shard(folder, 0, 2, "deadbeef", {});
    }
    append(take());
  }
  return history;
}

/// What a program that starts now must find.
struct Promise {
  std::set<std::int64_t> steps;  ///< committed, and nobody asked to remove them

  void follow(const Operation& operation) {
    if (operation.kind != Operation::Kind::kNote) return;
    const std::string& text = operation.path;
    const std::int64_t step = std::stoll(text.substr(text.find(' ')));
    if (text.starts_with("committed")) {
      steps.insert(step);
    } else {
      steps.erase(steps.begin(), steps.lower_bound(step));
    }
  }
};

/// How a disk breaks the promise, or "".
std::string broken(const Promise& promise, const TinyRun& run) {
  std::set<std::int64_t> found_steps;
  for (const Found& found : list(run.checkpoints())) {
    if (!found.problem.empty()) return str("a commit does not count: ", found.problem);
    if (!found.committed) continue;
    if (const std::string wrong = run.wrong_in(found.folder); !wrong.empty()) return wrong;
    found_steps.insert(found.step);
  }
  for (const std::int64_t step : promise.steps) {
    if (!found_steps.contains(step)) return str("step ", step, " is gone");
  }
  if (promise.steps.empty()) return "";
  std::string wrong;
  const std::string error = error_of([&] {
    const Reader reader(run.root);
    wrong = reader.step() < *promise.steps.rbegin() ? str("opens step ", reader.step())
                                                    : run.wrong_content(reader);
  });
  return error.empty() ? wrong : error;
}

/// The run goes on: its next save and clean-up must work and leave nothing but what is to be kept.
std::string stuck(const TinyRun& run) {
  const std::int64_t next = kLastStep + 1;
  const std::string error = error_of([&] {
    run.save(next);
    run.prune(kKeep);
  });
  if (!error.empty()) return error;
  std::set<std::string> names;
  for (const Path& entry : fs::list_folder(run.checkpoints(), Code::kCheckpoint))
    names.insert(entry.filename());
  if (names.size() > kKeep) return str("leftovers stay: ", join({names.begin(), names.end()}, ", "));
  Promise promise;
  promise.steps = {next};
  return broken(promise, run);
}

struct Limits {
  std::size_t most = 1000;  ///< states of one moment
  std::size_t from = 0;     ///< moments before this call are left out
  bool continues = false;   ///< also go on from every state
};

class Sweep {
 public:
  Sweep(const History& history, Limits limits) : limits_(limits) {
    Promise promise;
    for (std::size_t at = 0; at <= history.size() && fault_.empty(); ++at) {
      if (at >= limits_.from) look(promise, str("before call ", at));
      if (at == history.size()) break;
      model_.apply(history[at]);
      promise.follow(history[at]);
      if (history[at].kind == Operation::Kind::kNote) seen_.clear();  // the same disk, but more is promised
    }
  }

  [[nodiscard]] const std::string& fault() const { return fault_; }  ///< the first broken promise; "": none
  [[nodiscard]] std::size_t states() const { return states_; }       ///< different ones

 private:
  void look(const Promise& promise, const std::string& when) {
    const TinyRun run;
    for (const std::vector<int>& outcomes : model_.outcomes_to_try(limits_.most, random_)) {
      DiskTree tree = model_.state(outcomes);
      if (!seen_.insert(tree.fingerprint()).second) continue;
      ++states_;
      InUse<MemoryDisk> disk(std::move(tree));
      std::string wrong = broken(promise, run);
      if (wrong.empty() && limits_.continues) wrong = stuck(run);
      if (wrong.empty()) continue;
      fault_ = str(when, ": ", wrong, "\n", disk.tree().text());
      return;
    }
  }

  Limits limits_;
  std::mt19937_64 random_{2};
  CrashModel model_{DiskTree("/")};
  std::unordered_set<std::uint64_t> seen_;
  std::size_t states_ = 0;
  std::string fault_;
};

/// The first broken promise of a changed history; looks from the change on, with fewer states a moment.
std::string fault_of(const History& history, std::size_t from) {
  return Sweep(history, {.most = 60, .from = from}).fault();
}

TEST(Crash, EveryStateThatALossOfPowerLeavesKeepsWhatWasCommitted) {
  std::size_t states = 0;
  const unsigned orders = echelon::test::long_form() ? 3 : 1;
  for (unsigned order = 1; order <= orders; ++order) {
    const Sweep sweep(record(order), {});
    EXPECT_EQ(sweep.fault(), "") << "order " << order;
    states += sweep.states();
  }
  EXPECT_GE(states, 3000U * orders);
  RecordProperty("states", static_cast<int>(states));
}

TEST(Crash, ARunGoesOnFromEveryStateAndCleansUp) {
  const Sweep sweep(record(), {.most = 40, .continues = true});
  EXPECT_EQ(sweep.fault(), "");
  EXPECT_GE(sweep.states(), 500U);
}

// From here on: the sweep sees what it must see.

bool is_flush(const Operation& operation) {
  return operation.kind == Operation::Kind::kCall && operation.call == DiskCall::kFlush;
}
bool is_folder_flush(const Operation& operation) {
  const Path name = Path(operation.path).filename();
  return is_flush(operation) &&
         (name == "run" || name == "checkpoints" || name == "" || name.string().starts_with("step-"));
}
History without(History history, const std::function<bool(const Operation&)>& what) {
  std::erase_if(history, what);
  return history;
}

TEST(Crash, ADiskThatLosesNamesIsFoundOut) {
  EXPECT_NE(fault_of(without(record(), is_folder_flush), 0), "");
}

TEST(Crash, ADiskThatLosesContentIsFoundOut) {
  EXPECT_NE(
      fault_of(without(record(), [](const Operation& o) { return is_flush(o) && !is_folder_flush(o); }), 0),
      "");
}

TEST(Crash, EveryFlushOfAFileIsNeeded) {
  const History history = record();
  int flushes = 0;
  for (std::size_t at = 0; at < history.size(); ++at) {
    if (!is_flush(history[at]) || is_folder_flush(history[at])) continue;
    if (history[at].path.find("deadbeef") != std::string::npos) continue;  // never committed: nothing lost
    ++flushes;
    History less = history;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(at));
    EXPECT_NE(fault_of(less, at), "") << "flush of " << history[at].path;
  }
  EXPECT_EQ(flushes, kLastStep * 5);  // two shards, recipe.yaml, MANIFEST.json, COMMIT
}

TEST(Crash, ACommitThatIsWrittenInPlaceIsFoundOut) {
  History history = record();
  const auto renamed = std::find_if(history.begin(), history.end(), [](const Operation& operation) {
    return operation.call == DiskCall::kRename && operation.to.ends_with("/COMMIT");
  });
  ASSERT_NE(renamed, history.end());
  const std::string path = renamed->to;
  const auto written = std::find_if(history.begin(), renamed, [&](const Operation& operation) {
    return operation.call == DiskCall::kWrite && operation.path.starts_with(path + ".") &&
           operation.path.ends_with(".tmp");
  });
  ASSERT_NE(written, renamed);
  constexpr int kHandle = 1 << 20;
  Operation create{.call = DiskCall::kCreate, .path = path, .handle = kHandle};
  Operation write = *written;
  write.handle = kHandle;
  const Operation flush{.call = DiskCall::kFlush, .path = path, .handle = kHandle};
  const auto at = history.erase(renamed);
  const auto from = static_cast<std::size_t>(at - history.begin());
  history.insert(at, {create, write, flush});
  EXPECT_NE(fault_of(history, from), "");
}

TEST(Crash, ARemovalWithoutTheRenameInFrontIsFoundOut) {
  History history = without(record(), [](const Operation& operation) {
    return operation.call == DiskCall::kRename && operation.to.find(".trash-") != std::string::npos;
  });
  for (Operation& operation : history) {
    if (const auto trash = operation.path.find(".trash-"); trash != std::string::npos)
      operation.path.erase(trash, 7);
  }
  EXPECT_NE(fault_of(history, 0), "");
}

}  // namespace
}  // namespace echelon::checkpoint
