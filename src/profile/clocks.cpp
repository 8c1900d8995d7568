#include "profile/clocks.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/steady_time.h"
#include "comm/exchange.h"

namespace echelon::profile {
namespace {

constexpr std::size_t kExchanges = 32;

using Moments = std::array<double, 2 * kExchanges>;

}  // namespace

ClockOffset offset_of(const ExchangeTimes& rank_0, const ExchangeTimes& other) {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rank_0.issued_s.size(); ++i) {
    least = std::max(least, other.issued_s[i] - rank_0.done_s[i]);
    most = std::min(most, other.done_s[i] - rank_0.issued_s[i]);
  }
  return {.offset_s = (least + most) / 2, .uncertainty_s = (most - least) / 2};
}

std::vector<ClockOffset> measure_clocks(Communicator& comm) {
  Moments mine{};
  for (std::size_t i = 0; i < kExchanges; ++i) {
    mine[i] = steady_now_s();
    comm.barrier("clocks");
    mine[kExchanges + i] = steady_now_s();
  }
  std::vector<ExchangeTimes> ranks;
  for (const Moments& moments : gather_values(comm, mine, "clocks")) {
    const auto half = moments.begin() + kExchanges;
    ranks.push_back({{moments.begin(), half}, {half, moments.end()}});
  }
  std::vector<ClockOffset> offsets(ranks.size());
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) offsets[rank] = offset_of(ranks[0], ranks[rank]);
  return offsets;
}

}  // namespace echelon::profile
