#include "app/submit/allocation.h"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>

#include "app/submit/words.h"
#include "base/error.h"
#include "base/process/slurm_text.h"
#include "base/str.h"
#include "recipe/load.h"

namespace echelon::submit {
namespace {

constexpr std::int64_t kMinute = 60;
constexpr std::int64_t kHour = 60 * kMinute;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kLongestTime = 366 * kDay;
// Seconds; only a fallback: ranks that know the job's end stop by their own clock.
constexpr std::int64_t kStopBefore = 60;
constexpr std::int64_t kEarly = 60;  // seconds by which Slurm may send the signal early
constexpr std::size_t kMostTasks = 1000;
constexpr std::size_t kLongestText = 200;  // bounds the stack: std::regex recurses once per character
constexpr std::size_t kLongestDependency = 1000;
constexpr std::int64_t kMostRanks = 1'000'000;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(Code::kUsage, text);
}

/// The number of GPUs in "8" or "h100:8"; with `gres`, in "gpu:h100:8,lustre".
std::int64_t gpus_in(const std::string& option, const std::string& text, bool gres) {
  static const std::regex kGpus(R"(([A-Za-z][\w.-]*:)?([1-9]\d{0,2}))");
  static const std::regex kGres(R"(gpu(:[A-Za-z][\w.-]*)?(:([1-9]\d{0,2}))?)");
  std::smatch match;
  if (!gres) {
    if (text.size() > kLongestText || !std::regex_match(text, match, kGpus))
      refuse(str(option, " is '", printable(text),
                 "'; expected a number from 1 to 999 or TYPE:NUMBER, such as h100:8"));
    return std::stoll(match[2]);
  }
  std::int64_t gpus = 0;
  for (const std::string& entry : split(checked(words::kGres, option, text), ',')) {
    if (entry != "gpu" && !entry.starts_with("gpu:")) continue;
    if (entry.size() > kLongestText || !std::regex_match(entry, match, kGres))
      refuse(str(option, " holds '", printable(entry),
                 "'; expected gpu:NUMBER or gpu:TYPE:NUMBER, such as gpu:h100:8"));
    gpus += match[3].matched ? std::stoll(match[3]) : 1;
  }
  return gpus;
}

std::int64_t gpus_of(const Options& options) {
  if (!options.gpus_per_node.empty() && !options.gres.empty() && gpus_in("--gres", options.gres, true) > 0)
    refuse("--gpus-per-node and --gres both request GPUs: leave one of them out");
  if (!options.gpus_per_node.empty()) return gpus_in("--gpus-per-node", options.gpus_per_node, false);
  return options.gres.empty() ? 0 : gpus_in("--gres", options.gres, true);
}

void check_devices(const Allocation& job, TrainDevice device) {
  const std::int64_t tasks = job.tasks_per_node;
  const std::int64_t gpus = job.gpus_per_node;
  if (device == TrainDevice::kCpu && gpus > 0) {
    refuse(str("train.device is cpu, but the job requests ", counted(gpus, "GPU"),
               " per node, which would stay idle: request none, or set train.device=auto"));
  }
  if ((device == TrainDevice::kCuda || device == TrainDevice::kCudaShared) && gpus == 0) {
    refuse(str("train.device is ", word_of(device),
               ", but the job requests no GPUs: add --gpus-per-node N, or, where Slurm does not manage GPUs, "
               "set train.device=auto"));
  }
  if (gpus > 0 && tasks > gpus && device != TrainDevice::kCudaShared) {
    refuse(str("--tasks-per-node is ", tasks, ", and a node gets ", counted(gpus, "GPU"),
               "; expected one GPU for each task: request ", counted(tasks, "GPU"), ", start at most ",
               counted(gpus, "task"), ", or let tasks share with train.device=cuda_shared"));
  }
}

void require_range(const char* option, std::int64_t value, std::int64_t most) {
  if (value < 0 || value > most) refuse(str(option, " is ", value, "; expected from 0 to ", most));
}

std::int64_t stop_before(const Options& options, std::int64_t time_s) {
  // For short jobs the default is a quarter of their time, so that they are not refused.
  const std::int64_t wanted =
      options.stop_before_s >= 0 ? options.stop_before_s : std::min(kStopBefore, time_s / 4);
  if (wanted < 1 || wanted > 65'535)
    refuse(str("--stop-before is ", wanted, "; expected from 1 to 65535 seconds"));
  if (wanted + kEarly >= time_s) {
    refuse(str("--time ", slurm_time(time_s), ": the ranks must save and stop ", wanted,
               " s before its end, and Slurm may signal them ", kEarly,
               " s earlier: no time is left to train; expected ",
               time_s > kEarly + 1 ? str("--stop-before below ", time_s - kEarly, ", or ") : "",
               "more time"));
  }
  return wanted;
}

}  // namespace

Allocation allocate(const Options& options, const Recipe& recipe) {
  Allocation job{.nodes = options.nodes,
                 .spare_nodes = options.spare_nodes,
                 .gpus_per_node = gpus_of(options),
                 .time_s = seconds_of(options.time)};
  job.tasks_per_node = options.tasks_per_node;
  if (job.tasks_per_node == 0) job.tasks_per_node = std::max<std::int64_t>(1, job.gpus_per_node);
  if (job.nodes < 1 || job.tasks_per_node < 1 || job.nodes > kMostRanks / job.tasks_per_node)
    refuse(str("--nodes ", job.nodes, " x --tasks-per-node ", job.tasks_per_node, "; expected from 1 to ",
               human_count(kMostRanks), " ranks"));
  job.stop_before_s = stop_before(options, job.time_s);
  require_range("--max-requeues", options.max_requeues, 100'000);
  require_range("--spare-nodes", options.spare_nodes, 100'000);
  require_range("--max-restarts", options.max_restarts, 100'000);
  require_range("--max-same-step", options.max_same_step, 100'000);
  if (options.spare_nodes > 0 && options.max_restarts == 0)
    refuse(str("--spare-nodes is ", options.spare_nodes,
               ", but --max-restarts 0 never uses one: leave one of them out"));
  check_devices(job, recipe.train.device);
  in_context(str("--nodes ", job.nodes, " x --tasks-per-node ", job.tasks_per_node),
             [&] { validate_for_size(recipe, static_cast<int>(job.ranks())); });
  if (options.max_restarts > 0) job.fewer_nodes = fewer_nodes(recipe, job.nodes, job.tasks_per_node);
  if (job.gpus_per_node > job.tasks_per_node && recipe.train.device != TrainDevice::kCudaShared)
    job.note =
        str(job.gpus_per_node - job.tasks_per_node, " of ", job.gpus_per_node,
            " GPUs of each node stay idle: ", "one task uses one GPU, and there are ", job.tasks_per_node);
  return job;
}

std::int64_t seconds_of(const std::string& time) {
  const std::optional<std::int64_t> seconds = slurm_seconds(time);
  // Slurm prints "30 sec", and sbatch refuses it.
  if (!seconds || time.ends_with("sec") || *seconds < 1 || *seconds > kLongestTime)
    refuse(str("--time is '", printable(time),
               "'; expected minutes, minutes:seconds, hours:minutes:seconds or days-hours:minutes:seconds, "
               "at most a year"));
  return (*seconds + kMinute - 1) / kMinute * kMinute;
}

std::string slurm_time(std::int64_t seconds) {
  const auto two = [](std::int64_t number) { return str(number < 10 ? "0" : "", number); };
  return str(seconds / kDay, "-", two(seconds % kDay / kHour), ":", two(seconds % kHour / kMinute), ":",
             two(seconds % kMinute));
}

std::vector<std::int64_t> array_tasks(const std::string& array) {
  static const std::regex kArray(
      R"(\d{1,7}(-\d{1,7}(:[1-9]\d{0,6})?)?(,\d{1,7}(-\d{1,7}(:[1-9]\d{0,6})?)?)*(%[1-9]\d{0,6})?)");
  const auto expected = [&array](const std::string& why) {
    return str("--array is '", printable(array), "'", why,
               "; expected numbers and ranges such as 0-3,7 or 0-9%1, at most ", kMostTasks, " tasks");
  };
  if (array.size() > kLongestText || !std::regex_match(array, kArray)) refuse(expected(""));
  std::set<std::int64_t> tasks;
  for (const std::string& range : split(array.substr(0, array.find('%')), ',')) {
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t step = 1;
    char sign = 0;
    std::istringstream numbers(range);
    numbers >> first;
    last = first;
    if (numbers >> sign >> last) numbers >> sign >> step;
    if (last < first) refuse(expected(str(", whose range ", range, " runs backwards")));
    for (std::int64_t task = first; task <= last; task += step) {
      tasks.insert(task);
      if (tasks.size() > kMostTasks) refuse(expected(", which is too many"));
    }
  }
  return {tasks.begin(), tasks.end()};
}

void check_dependency(const std::string& dependency) {
  static const std::regex kOne(R"(singleton|after(any|ok|notok|corr)?(:\d{1,10}(_\d{1,7})?(\+\d{1,7})?)+)");
  const auto expected = [&dependency] {
    return str("--dependency is '", printable(dependency),
               "'; expected singleton, or after, afterany, afterok, afternotok or aftercorr with :JOB, such "
               "as afterok:17:18");
  };
  const bool any = dependency.find('?') != dependency.npos;
  if (dependency.size() > kLongestDependency || dependency.empty() || dependency.back() == ',' ||
      dependency.back() == '?')
    refuse(expected());
  for (const std::string& entry : split(dependency, any ? '?' : ',')) {
    if (!std::regex_match(entry, kOne)) refuse(expected());
  }
}

}  // namespace echelon::submit
