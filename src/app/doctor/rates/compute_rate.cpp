#include "app/doctor/rates/compute_rate.h"

#include <algorithm>

#include "app/doctor/rates/exchange.h"
#include "app/doctor/rates/rates.h"
#include "app/engine/engine.h"
#include "app/plugin.h"

namespace echelon::app {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MatmulResult, flops, device, fault)

}  // namespace echelon::app

namespace echelon::app::doctor {
namespace {

/// Joins the faults of all ranks into one finding; nothing if there are no faults.
Finding complain(const JobInfo& info, const std::vector<MatmulResult>& all) {
  const Complaints faults = faults_of(info, all);
  if (faults.none()) return ok("matmul", "");
  return fault("matmul", listed(faults.texts, 3),
               "install the complete program on every node: bin/, lib/ and libtorch", faults.nodes);
}

MatmulResult find_engine(MatmulFunction*& matmul) {
  MatmulResult mine;
  try {
    matmul = engine_function<MatmulFunction>("echelon_engine_matmul");
  } catch (const Error& error) {
    mine.fault = printable(error.what(), 200);
  }
  return mine;
}

std::vector<Rate> sum_by_node(const JobInfo& info, const std::vector<MatmulResult>& all) {
  std::vector<Rate> rates;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string& host = info.hosts[rank];
    auto node = std::ranges::find(rates, host, &Rate::host);
    if (node == rates.end()) node = rates.insert(rates.end(), {host, 0});
    node->value += all[rank].flops / 1e9;
  }
  return rates;
}

}  // namespace

Finding examine_compute_rate(Job& job, double seconds, double slow) {
  const JobInfo& info = job.info();
  MatmulFunction* matmul = nullptr;
  // The engine's choice of devices is collective: call it on all ranks or on none.
  Finding missing = complain(info, exchange_facts(job, "doctor engine", find_engine(matmul)));
  if (missing.verdict != Verdict::kOk) return missing;
  MatmulResult mine;
  (void)matmul(job, seconds, mine);
  mine.fault = printable(mine.fault, 200);
  const std::vector<MatmulResult> all = exchange_facts(job, "doctor matmul", mine);
  Finding failed = complain(info, all);
  if (failed.verdict != Verdict::kOk) return failed;
  const std::vector<Rate> rates = sum_by_node(info, all);
  return judge_rates(
      "matmul", str("multiplies matrices on ", all[0].device, " at"), "GFLOP/s", rates, slow,
      "look for other processes, heat or a lower clock on the node, or leave it out (--exclude)");
}

}  // namespace echelon::app::doctor
