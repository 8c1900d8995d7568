#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "app/engine/answer.h"
#include "app/engine/engine.h"
#include "app/engine/plan/stage.h"
#include "app/engine/plan/timed_communicator.h"
#include "app/engine/threads.h"
#include "base/process/cores.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "book/books.h"
#include "book/timing.h"
#include "comm/payload.h"
#include "forecast/cpu_profile.h"

namespace echelon::app {
namespace {

using forecast::CpuProfile;
using Points = std::map<std::string, std::vector<CpuProfile::Point>>;

/// A recipe that comes with Echelon, and how it is changed: models of all kinds in several sizes.
struct Sample {
  const char* recipe;
  std::vector<std::string> overrides{};
  std::int64_t passes = 2;  ///< the second adds to gradients
};

std::vector<Sample> samples() {
  const std::vector<Sample> shapes{
      {"llama_smoke"},
      {"llama_smoke", {"model.hidden_size=192", "model.intermediate_size=640", "model.vocab_size=2048"}},
      {"llama_smoke",
       {"model.hidden_size=256", "model.intermediate_size=768", "model.vocab_size=4096",
        "model.max_positions=256", "data.seq_len=256"}},
      {"llama_smoke",
       {"model.hidden_size=512", "model.intermediate_size=1536", "model.vocab_size=8192",
        "model.max_positions=512", "data.seq_len=512", "model.layers=1"},
       1},
      {"llama_smoke",
       {"model.hidden_size=768", "model.intermediate_size=2048", "model.vocab_size=16384", "model.layers=1",
        "train.micro_batch_size=4"},
       1},
      // Kept products are the library's, in other precisions than fp32 too.
      {"llama_smoke", {"model.hidden_size=256", "activation_checkpointing.policy=selective"}},
      {"llama_smoke",
       {"model.hidden_size=384", "model.intermediate_size=1152", "model.vocab_size=2048", "model.layers=2",
        "train.micro_batch_size=4", "activation_checkpointing.policy=selective"},
       1},
      {"gpt_smoke"},
      {"gpt_smoke", {"model.hidden_size=256", "model.vocab_size=2048"}},
      {"gpt_smoke",
       {"model.hidden_size=384", "model.vocab_size=8192", "model.layers=2", "train.micro_batch_size=4"},
       1},
      {"t5_smoke"},
      {"t5_smoke", {"model.hidden_size=128"}},
      {"t5_smoke", {"model.hidden_size=256", "train.micro_batch_size=8"}},
      {"deepvit_smoke"},
      {"deepvit_smoke", {"model.hidden_size=256", "train.micro_batch_size=16"}, 1},
      {"mnist_smoke"},
      {"mnist_smoke", {"train.micro_batch_size=64"}, 1}};
  std::vector<Sample> all;
  for (const char* precision : {"precision.preset=fp32", "precision.preset=bf16_fp32_reduce"}) {
    for (Sample sample : shapes) {
      sample.overrides.emplace_back(precision);
      all.push_back(std::move(sample));
    }
  }
  all.push_back({"llama_smoke", {"precision.preset=bf16"}});  // reduces in two bytes
  return all;
}

Recipe recipe_of(const Sample& sample, int ranks) {
  Recipe recipe = load_recipe(sample.recipe, sample.overrides).recipe;
  recipe.train.global_batch_size = sample.passes * recipe.train.micro_batch_size * ranks;
  recipe.data.workers = 0;
  return recipe;
}

struct TimedStep {
  double seconds = 0;
  MessageTimes messages;  ///< of a plain step
  forecast::Trace trace;  ///< of an observed one
};
/// Steps of one sample.
struct Steps {
  std::vector<TimedStep> plain;     ///< as they are in a run
  std::vector<TimedStep> observed;  ///< with all their works timed
};

/// Steps with and without observation in turn, because a machine's speed changes.
void time_steps(const Recipe& recipe, Job& job, Communicator& world, Steps& steps) {
  constexpr int kSteps = 2;
  MessageTimes messages;
  const std::unique_ptr<Communicator> comm = make_timed_communicator(world, messages);
  Stage stage(recipe, *comm, *comm, at::kCPU, job.info().local_size);
  const auto step = [&] {
    messages = {};
    const double began_s = steady_now_s();
    stage.step();
    return steady_now_s() - began_s;
  };
  constexpr int kWarm = 2;  // the first allocates
  for (int i = 0; i < kWarm; ++i) (void)step();
  for (int i = 0; i < kSteps; ++i) {
    world.barrier("calibrate");
    const double plain_s = step();
    steps.plain.push_back({plain_s, std::move(messages), {}});
    const book::Timing timing;
    book::books().begin(stage.activity, [] { return std::int64_t{0}; });
    const double observed_s = step();
    steps.observed.push_back({observed_s, {}, book::books().end()});
  }
}

/// The faster half: the others may have shared the machine with something else.
void keep_fastest(std::vector<TimedStep>& steps) {
  std::ranges::sort(steps, {}, &TimedStep::seconds);
  steps.resize((steps.size() + 1) / 2);
}

/// Mean seconds of a step's thread, without messages.
double computing_s(const std::vector<TimedStep>& steps) {
  double sum = 0;
  for (const TimedStep& step : steps) sum += step.seconds - step.messages.seconds;
  return sum / static_cast<double>(steps.size());
}

/// Seconds that a step's thread spends in works.
double sum_of(const forecast::Trace& trace, int threads) {
  double sum = 0;
  for (const forecast::Work& work : trace.works)
    sum += (work.before_s + work.seconds) / (work.divided ? threads : 1);
  return sum;
}

/// Adds what the works and messages of the steps took. Works are scaled so that those of a step take as long
/// as a plain step does: observation also slows what it does not see.
void add_points(Steps& steps, int threads, CpuProfile& profile) {
  constexpr double kLeast = 1e-9;
  keep_fastest(steps.plain);
  keep_fastest(steps.observed);
  for (const TimedStep& step : steps.plain) {
    for (const auto& [key, points] : step.messages.points)
      profile.messages[key].insert(profile.messages[key].end(), points.begin(), points.end());
  }
  for (const TimedStep& step : steps.observed) {
    const double scale = computing_s(steps.plain) / sum_of(step.trace, threads);
    for (const forecast::Work& work : step.trace.works) {
      if (work.seconds <= 0 || (work.flops <= 0 && work.bytes <= 0)) continue;
      const std::string key = forecast::key_of(step.trace.names[work.name], work);
      profile.works[key].push_back({work.flops, work.bytes, scale * work.seconds});
      const CpuProfile::Point before{work.flops, work.bytes, scale * std::max(kLeast, work.before_s)};
      profile.before[key].push_back(before);
      profile.before[forecast::key_after(key, step.trace.names[work.after])].push_back(before);
    }
  }
}

/// Their mean, because a step takes their sum; without those that something else on the machine held up.
CpuProfile::Point mean_of(std::vector<CpuProfile::Point>& alike) {
  const auto per_size = [](const CpuProfile::Point& p) { return p.seconds / std::max(p.flops, p.bytes); };
  const auto middle = alike.begin() + static_cast<std::ptrdiff_t>(alike.size() / 2);
  std::nth_element(alike.begin(), middle, alike.end(),
                   [&](const auto& a, const auto& b) { return per_size(a) < per_size(b); });
  // A work of microseconds may well take ten times as long if its thread was not in the caches.
  constexpr double kLong_s = 50e-6;
  const double held_up = middle->seconds > kLong_s ? 3 : 20;
  const double most = held_up * per_size(*middle);
  CpuProfile::Point mean;
  double count = 0;
  for (const CpuProfile::Point& point : alike) {
    if (per_size(point) > most) continue;
    mean.flops += point.flops;
    mean.bytes += point.bytes;
    mean.seconds += point.seconds;
    ++count;
  }
  return {mean.flops / count, mean.bytes / count, mean.seconds / count};
}

/// One point for operations of about the same size and FLOPs per byte.
Points condensed(const Points& points) {
  Points few;
  for (const auto& [key, all] : points) {
    std::map<std::pair<int, int>, std::vector<CpuProfile::Point>> cells;
    for (const CpuProfile::Point& point : all) {
      const double size = point.flops > 0 ? point.flops : point.bytes;
      const double intensity = point.flops > 0 ? point.flops / std::max(1.0, point.bytes) : 1;
      cells[{static_cast<int>(std::lround(2 * std::log2(size))),
             static_cast<int>(std::lround(4 * std::log2(intensity)))}]
          .push_back(point);
    }
    for (auto& [cell, alike] : cells) few[key].push_back(mean_of(alike));
  }
  return few;
}

/// Seconds of a collective of `count` fp32 elements per rank.
double time_message(Communicator& comm, OperationKind kind, std::size_t count, std::vector<float>& buffer,
                    std::vector<float>& output) {
  constexpr int kTimes = 5;
  std::vector<double> seconds;
  for (int i = 0; i < kTimes; ++i) {
    comm.barrier("calibrate");
    const double began_s = steady_now_s();
    switch (kind) {
      case OperationKind::kAllGather:
        comm.all_gather(buffer.data(), count, DType::kF32, "calibrate").wait();
        break;
      case OperationKind::kReduceScatter:
        comm.reduce_scatter(buffer.data(), DType::kF32, output.data(), count, 1.0F, false, "calibrate")
            .wait();
        break;
      default: comm.all_reduce(buffer.data(), count, DType::kF32, ReduceOp::kSum, "calibrate").wait();
    }
    seconds.push_back(steady_now_s() - began_s);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTimes / 2];
}

/// Messages larger than those of the samples' steps.
void add_large_messages(Communicator& comm, Points& points) {
  constexpr std::size_t kMost = std::size_t{4} << 20;  // elements per rank
  if (comm.size() == 1) return;
  std::vector<float> buffer(kMost * static_cast<std::size_t>(comm.size()));
  std::vector<float> output(kMost);
  for (const OperationKind kind :
       {OperationKind::kAllGather, OperationKind::kReduceScatter, OperationKind::kAllReduce}) {
    std::vector<CpuProfile::Point>& known = points[forecast::key_of(kind, DType::kF32, false)];
    double largest = 0;
    for (const CpuProfile::Point& point : known) largest = std::max(largest, point.bytes);
    for (std::size_t count = 16; count <= kMost; count *= 4) {
      const auto sent =
          static_cast<double>(payload_bytes(kind, count, DType::kF32, comm.rank(), comm.size()));
      if (sent > largest) known.push_back({0, sent, time_message(comm, kind, count, buffer, output)});
    }
  }
}

CpuProfile calibrate(Job& job, Communicator& comm) {
  keep_freed_memory();
  set_threads(0, job.info());
  CpuProfile profile{.name = "cpu",
                     .title = str("CPU ranks of ", job.info().host, ": ", job.info().local_size,
                                  " on a node, ", at::get_num_threads(), " threads each"),
                     .ranks_per_node = job.info().local_size,
                     .threads = at::get_num_threads(),
                     .cores = std::max(usable_cores(), job.info().local_size * at::get_num_threads())};
  constexpr int kRounds = 3;
  const std::vector<Sample> all = samples();
  std::vector<Steps> steps(all.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i)
      time_steps(recipe_of(all[i], comm.size()), job, comm, steps[i]);
  }
  for (Steps& of_one : steps) add_points(of_one, profile.threads, profile);
  profile.works = condensed(profile.works);
  profile.before = condensed(profile.before);
  profile.messages = condensed(profile.messages);
  add_large_messages(comm, profile.messages);
  job.fence("calibrate end");
  return profile;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_calibrate(echelon::Job& job, echelon::Communicator& comm, std::string& profile,
                             std::string& fault) {
  return echelon::app::answer(
      fault, [&] { profile = echelon::forecast::to_json(echelon::app::calibrate(job, comm)); });
}
