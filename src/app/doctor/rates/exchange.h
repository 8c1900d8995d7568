#pragma once
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "app/doctor/finding.h"
#include "base/error.h"
#include "base/foreign_json.h"
#include "base/str.h"
#include "bootstrap/job.h"

namespace echelon::app::doctor {

/// Returns the `mine` of every rank, indexed by rank. Collective. Throws Error(kPeer) if a rank's answer has
/// a different format, because it runs another version.
template <class Facts>
[[nodiscard]] std::vector<Facts> exchange_facts(Job& job, std::string_view name, const Facts& mine) {
  const std::string text =
      nlohmann::json(mine).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  std::vector<Facts> all;
  for (const Blob& blob : job.exchange(name, Blob(first, first + text.size()))) {
    const std::string_view facts(reinterpret_cast<const char*>(blob.data()), blob.size());
    try {
      all.push_back(read_foreign_json(facts).value.get<Facts>());
    } catch (const nlohmann::json::exception&) {
      const auto rank = static_cast<int>(all.size());
      throw Error(Code::kPeer, "rank ", rank, " (", job.info().hosts[all.size()], ") answers '", name,
                  "' in a different format: it runs a different version of echelon; start "
                  "the same program on all nodes");
    }
  }
  return all;
}

/// "rank N on HOST: FAULT" for each rank whose facts hold a fault.
template <class Facts>
[[nodiscard]] Complaints faults_of(const JobInfo& info, const std::vector<Facts>& all) {
  Complaints complaints;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].fault.empty()) continue;
    complaints.add(info.hosts[rank], str("rank ", rank, " on ", info.hosts[rank], ": ", all[rank].fault));
  }
  return complaints;
}

}  // namespace echelon::app::doctor
