#include "app/doctor/rates/network_rate.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "app/doctor/rates/exchange.h"
#include "app/doctor/rates/pairs.h"
#include "app/doctor/rates/rates.h"
#include "base/net/node_layout.h"
#include "base/steady_time.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_worker.h"
#include "comm/mpi/mpi_world.h"

namespace echelon::app::doctor {
namespace {

constexpr std::size_t kTrialBytes = std::size_t{64} << 10;  // sent by each of the two ranks
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
constexpr double kExchangeS = 0.1;
constexpr int kMostRounds = 15;
constexpr int kRepeats = 3;

struct Talking {
  double start_ms = 0;
  double barrier_ms = 0;
  double bytes_per_s = 0;  ///< slower direction with the best partner; 0: no partner
  std::string fault;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Talking, start_ms, barrier_ms, bytes_per_s, fault)

/// Exchanges `bytes` in each direction. Returns seconds.
double exchange(Communicator& pair, std::vector<std::byte>& buffer, std::size_t bytes) {
  const double start_s = steady_now_s();
  pair.all_gather(buffer.data(), bytes, DType::kU8, "doctor pair").wait();
  return steady_now_s() - start_s;
}

/// Best of a few exchanges with the other rank of `pair`, in bytes per second and direction. Slow networks
/// exchange fewer bytes, which bounds the time.
double rate_of(Communicator& pair, std::vector<std::byte>& buffer) {
  (void)exchange(pair, buffer, kTrialBytes);  // not timed: opens connections
  double trial_s = exchange(pair, buffer, kTrialBytes);
  // Both must choose the same size.
  pair.all_reduce(&trial_s, 1, DType::kF64, ReduceOp::kMax, "doctor trial").wait();
  const double wanted = static_cast<double>(kTrialBytes) / trial_s * kExchangeS;
  const std::size_t bytes =
      std::clamp(static_cast<std::size_t>(std::min(wanted, 1e12)), kTrialBytes, kMostBytes);
  double best_s = exchange(pair, buffer, bytes);
  for (int repeat = 0; repeat < kRepeats; ++repeat) best_s = std::min(best_s, exchange(pair, buffer, bytes));
  // A node may send slowly but receive at full speed: the slower direction counts.
  pair.all_reduce(&best_s, 1, DType::kF64, ReduceOp::kMax, "doctor pair").wait();
  return static_cast<double>(bytes) / best_s;
}

/// The ranks that exchange data, by their rank: the first rank of each node, or all ranks of a single node.
/// Others have -1.
struct Places {
  std::vector<int> of_rank;
  int count = 0;

  /// A color that the two ranks share which exchange data in this round; every other rank has its own.
  [[nodiscard]] int color_of(int rank, int round) const {
    const int place = of_rank[static_cast<std::size_t>(rank)];
    const int partner = place < 0 ? -1 : partner_of(place, count, round);
    return partner < 0 ? count + rank : std::min(place, partner);
  }
};

Places places_of(const JobInfo& info) {
  const NodeLayout layout(info.hosts);
  Places places;
  for (int rank = 0; rank < info.size; ++rank) {
    const bool takes_part = layout.nodes() == 1 || layout.leads(rank);
    places.of_rank.push_back(takes_part ? places.count++ : -1);
  }
  return places;
}

Talking talk(Job& job, double timeout_s) {
  Talking talking;
  const JobInfo& info = job.info();
  const double start_s = steady_now_s();
  const std::unique_ptr<Communicator> world = make_mpi_communicator(job, timeout_s);
  talking.start_ms = 1e3 * (steady_now_s() - start_s);
  world->barrier("doctor warm-up");
  const double barrier_s = steady_now_s();
  world->barrier("doctor barrier");
  talking.barrier_ms = 1e3 * (steady_now_s() - barrier_s);
  const Places places = places_of(info);
  std::vector<std::byte> buffer(2 * kMostBytes);
  const int rounds = std::min(rounds_of(places.count), kMostRounds);
  for (int round = 0; round < rounds; ++round) {
    const std::unique_ptr<Communicator> pair =
        world->split([&](int rank) { return places.color_of(rank, round); });
    world->barrier("doctor round");
    if (pair->size() == 2) talking.bytes_per_s = std::max(talking.bytes_per_s, rate_of(*pair, buffer));
  }
  // No rank may close connections that others still measure.
  world->barrier("doctor end");
  return talking;
}

Finding judge_start(const JobInfo& info, const std::vector<Talking>& all) {
  if (const Complaints faults = faults_of(info, all); !faults.none()) {
    return fault(
        "mpi", listed(faults.texts, 2),
        "the same Open MPI and PMIx must be on all nodes, and their addresses reachable from each other");
  }
  double start_ms = 0;
  for (const Talking& talking : all) start_ms = std::max(start_ms, talking.start_ms);
  Finding finding = ok("mpi", str(mpi_library_version(), " starts in ", std::round(start_ms),
                                  " ms, a barrier takes ", std::round(all[0].barrier_ms * 100) / 100, " ms"));
  finding.values = {{"start_ms", std::round(start_ms)}, {"barrier_ms", all[0].barrier_ms}};
  return finding;
}

}  // namespace

std::vector<Finding> examine_network(Job& job, double timeout_s, double slow) {
  const JobInfo& info = job.info();
  if (info.size == 1) return {};
  Talking mine;
  try {
    mine = talk(job, timeout_s);
  } catch (const Error& error) {
    // Not thrown: the exchange below goes through PMIx and needs every rank.
    mine.fault = printable(error.what(), 300);
  }
  const std::vector<Talking> all = exchange_facts(job, "doctor network", mine);
  std::vector<Finding> findings{judge_start(info, all)};
  if (findings[0].verdict != Verdict::kOk) return findings;
  std::vector<Rate> rates;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string name = info.num_nodes == 1 ? str("rank ", rank) : info.hosts[rank];
    if (all[rank].bytes_per_s > 0) rates.push_back({name, all[rank].bytes_per_s / 1e6});
  }
  Finding bandwidth =
      judge_rates("bandwidth", "exchanges over MPI", "MB/s", rates, slow,
                  "look at the node's network device, cable and routes, or leave it out (--exclude)");
  if (info.num_nodes == 1) bandwidth.nodes.clear();
  findings.push_back(std::move(bandwidth));
  return findings;
}

}  // namespace echelon::app::doctor
