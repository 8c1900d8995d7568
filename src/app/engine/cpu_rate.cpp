#include "app/engine/cpu_rate.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "base/files/new_file.h"
#include "base/foreign_json.h"
#include "base/log.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "model/ops/products/product.h"

namespace echelon::app {
namespace {

constexpr double kSeconds = 0.1;
constexpr std::int64_t kDepth = 1024;
constexpr std::int64_t kRows = 1024;
/// Rows of the first product: small, because a core without instructions for `type` is slow.
constexpr std::int64_t kFewestRows = 64;
constexpr std::int64_t kColumnsOfAThread = 96;

double best_rate(at::ScalarType type) {
  const std::int64_t columns =
      std::max<std::int64_t>(kRows, kColumnsOfAThread * static_cast<std::int64_t>(at::get_num_threads()));
  const at::Tensor a = at::ones({kRows, kDepth}, type);
  const at::Tensor b = at::ones({kDepth, columns}, type);
  at::Tensor out = at::empty({kRows, columns}, type);
  const double began_s = steady_now_s();
  double best = 0;
  for (std::int64_t rows = kFewestRows; steady_now_s() - began_s < kSeconds;
       rows = std::min(2 * rows, kRows)) {
    const double start_s = steady_now_s();
    ops::product_into(out.narrow(0, 0, rows), a.narrow(0, 0, rows), b, false);
    const double seconds = steady_now_s() - start_s;
    best = std::max(best, 2.0 * static_cast<double>(rows * kDepth * columns) / std::max(seconds, 1e-9));
  }
  return best;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  }
  return "processor";
}

/// The highest rate under `conditions`: `rate`, or what the file has. The file has it from now on.
double highest(const fs::Path& file, const std::string& conditions, double rate) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  try {
    nlohmann::json rates = nlohmann::json::object();
    if (std::filesystem::exists(file))
      rates = parse_foreign_json(fs::read_file(file, kMostBytes, Code::kEnvironment), file.string(),
                                 Code::kEnvironment);
    if (!rates.is_object()) throw Error(Code::kEnvironment, file.string(), ": expected a JSON object");
    const auto kept = rates.find(conditions);
    if (kept != rates.end() && kept->is_number()) rate = std::max(rate, kept->get<double>());
    rates[conditions] = rate;
    fs::replace_file(file, rates.dump(1) + "\n", Code::kEnvironment);
  } catch (const Error& error) {
    log::warn(str("the rate that mfu is relative to is this start's own: ", error.what()));
  }
  return rate;
}

}  // namespace

double cpu_product_rate(at::ScalarType type, const fs::Path& file, Communicator& comm) {
  comm.barrier("product rate");
  double rate = best_rate(type);
  comm.all_reduce(&rate, 1, DType::kF64, ReduceOp::kSum, "product rate").wait();
  rate /= comm.size();
  if (comm.rank() == 0) {
    const std::string conditions = str(processor_name(), ", ", at::get_num_threads(), " threads, ",
                                       comm.size(), " ranks, ", c10::toString(type));
    rate = highest(file, conditions, rate);
    log::note(str("matrix products run at ", std::lround(rate / 1e9),
                  " GFLOP/s per rank; mfu is relative to this rate"));
  }
  comm.all_reduce(&rate, 1, DType::kF64, ReduceOp::kMax, "highest product rate").wait();
  return rate;
}

}  // namespace echelon::app
