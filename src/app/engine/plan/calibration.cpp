#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "app/engine/engine.h"
#include "app/engine/plan/stage.h"
#include "app/engine/threads.h"
#include "base/process/cores.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "book/books.h"
#include "book/timing.h"
#include "comm/local_communicator.h"
#include "comm/payload.h"
#include "forecast/cpu_profile.h"

namespace echelon::app {
namespace {

using forecast::CpuProfile;
using Points = std::map<std::string, std::vector<CpuProfile::Point>>;

/// A recipe that comes with Echelon, and how it is changed: models of all kinds in several sizes.
struct Sample {
  const char* recipe;
  std::vector<std::string> overrides;
};

std::vector<Sample> samples() {
  const std::vector<Sample> shapes{
      {"llama_smoke", {}},
      {"llama_smoke",
       {"model.hidden_size=256", "model.intermediate_size=768", "model.vocab_size=4096",
        "model.max_positions=256", "data.seq_len=256"}},
      {"llama_smoke",
       {"model.hidden_size=512", "model.intermediate_size=1536", "model.vocab_size=8192",
        "model.max_positions=512", "data.seq_len=512", "model.layers=2"}},
      {"llama_smoke",
       {"model.hidden_size=768", "model.intermediate_size=2048", "model.vocab_size=16384", "model.layers=2",
        "train.micro_batch_size=4"}},
      {"gpt_smoke", {}},
      {"gpt_smoke", {"model.hidden_size=384", "model.vocab_size=8192", "train.micro_batch_size=4"}},
      {"t5_smoke", {}},
      {"t5_smoke", {"model.hidden_size=256", "train.micro_batch_size=8"}},
      {"deepvit_smoke", {}},
      {"deepvit_smoke", {"model.hidden_size=256", "train.micro_batch_size=16"}},
      {"mnist_smoke", {}},
      {"mnist_smoke", {"train.micro_batch_size=64"}}};
  std::vector<Sample> all;
  for (const char* precision : {"precision.preset=fp32", "precision.preset=bf16"}) {
    for (Sample sample : shapes) {
      sample.overrides.emplace_back(precision);
      all.push_back(std::move(sample));
    }
  }
  return all;
}

Recipe recipe_of(const Sample& sample) {
  Recipe recipe = load_recipe(sample.recipe, sample.overrides).recipe;
  recipe.train.global_batch_size = recipe.train.micro_batch_size;
  recipe.data.workers = 0;
  return recipe;
}

/// Seconds that the works of a trace took of the step's thread.
double worked_s(const forecast::Trace& trace, int threads) {
  double seconds = 0;
  for (const forecast::Work& work : trace.works)
    seconds += work.divided ? work.seconds / threads : work.seconds;
  return seconds;
}

/// Times steps of the recipe; returns host seconds around each operation.
double time_steps(const Recipe& recipe, Job& job, Points& points) {
  constexpr int kSteps = 3;
  LocalCommunicator alone;
  Stage stage(recipe, alone, alone, at::kCPU, 1);
  for (int i = 0; i < 2; ++i) stage.step();
  job.fence("calibrate");  // all ranks compute at the same time, as in a run
  const double plain_began_s = steady_now_s();
  for (int i = 0; i < kSteps; ++i) stage.step();
  const double plain_s = steady_now_s() - plain_began_s;
  const book::Timing timing;
  book::books().begin(stage.activity, [] { return std::int64_t{0}; });
  for (int i = 0; i < kSteps; ++i) stage.step();
  const forecast::Trace trace = book::books().end();
  for (const forecast::Work& work : trace.works) {
    if (work.seconds > 0 && (work.flops > 0 || work.bytes > 0))
      points[forecast::key_of(trace.names[work.name], work)].push_back(
          {work.flops, work.bytes, work.seconds});
  }
  const auto whole = std::count_if(trace.works.begin(), trace.works.end(),
                                   [](const forecast::Work& work) { return !work.divided; });
  const double between_s = (plain_s - worked_s(trace, at::get_num_threads())) /
                           static_cast<double>(std::max<std::int64_t>(1, whole));
  return std::max(1e-8, between_s);
}

/// One point for operations of about the same size and FLOPs per byte: their median.
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
    for (auto& [cell, alike] : cells) {
      const auto middle = alike.begin() + static_cast<std::ptrdiff_t>(alike.size() / 2);
      std::nth_element(alike.begin(), middle, alike.end(), [](const auto& a, const auto& b) {
        return a.seconds / std::max(a.flops, a.bytes) < b.seconds / std::max(b.flops, b.bytes);
      });
      few[key].push_back(*middle);
    }
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
      default:
        comm.all_reduce(buffer.data(), count, DType::kF32, ReduceOp::kSum, "calibrate").wait();
    }
    seconds.push_back(steady_now_s() - began_s);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kTimes / 2];
}

Points time_messages(Communicator& comm) {
  constexpr std::size_t kMost = std::size_t{4} << 20;  // elements per rank
  Points points;
  if (comm.size() == 1) return points;
  std::vector<float> buffer(kMost * static_cast<std::size_t>(comm.size()));
  std::vector<float> output(kMost);
  const std::pair<OperationKind, const char*> kinds[] = {{OperationKind::kAllGather, "all_gather"},
                                                         {OperationKind::kReduceScatter, "reduce_scatter"},
                                                         {OperationKind::kAllReduce, "all_reduce"}};
  for (const auto& [kind, name] : kinds) {
    for (std::size_t count = 16; count <= kMost; count *= 4) {
      const auto sent =
          static_cast<double>(payload_bytes(kind, count, DType::kF32, comm.rank(), comm.size()));
      points[name].push_back({0, sent, time_message(comm, kind, count, buffer, output)});
    }
  }
  return points;
}

CpuProfile calibrate(const CalibrateRequest& request) {
  keep_freed_memory();
  Job& job = *request.job;
  set_threads(0, job.info());
  CpuProfile profile{.name = "cpu",
                     .title = str("CPU ranks of ", job.info().host, ": ", job.info().local_size,
                                  " on a node, ", at::get_num_threads(), " threads each"),
                     .ranks_per_node = job.info().local_size,
                     .threads = at::get_num_threads(),
                     .cores = std::max(usable_cores(), job.info().local_size * at::get_num_threads())};
  profile.messages = time_messages(*request.comm);
  Points points;
  std::vector<double> between;
  for (const Sample& sample : samples()) between.push_back(time_steps(recipe_of(sample), job, points));
  std::sort(between.begin(), between.end());
  profile.between_s = between[between.size() / 2];
  profile.works = condensed(points);
  job.fence("calibrate end");
  return profile;
}

}  // namespace
}  // namespace echelon::app

int echelon_engine_calibrate(const echelon::app::CalibrateRequest& request, std::string& profile,
                             std::string& fault) {
  try {
    profile = echelon::forecast::to_json(echelon::app::calibrate(request));
    return 0;
  } catch (const echelon::Error& error) {
    fault = error.what();
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fault = error.what();
    return static_cast<int>(echelon::Code::kEnvironment);
  }
}
