#include "bootstrap/pmix_job.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/process/process.h"
#include "base/str.h"

namespace echelon {
namespace {

/// Prefixes the caller's bytes with the round's name and a zero byte, so that ranks at different rounds
/// notice.
Blob wrap(std::string_view name, const Blob& mine) {
  Blob bytes(name.size() + 1 + mine.size());
  std::memcpy(bytes.data(), name.data(), name.size());
  std::ranges::copy(mine, bytes.begin() + static_cast<std::ptrdiff_t>(name.size()) + 1);
  return bytes;
}

struct Unwrapped {
  std::string name;
  Blob bytes;
};

Unwrapped unwrap(const Blob& bytes) {
  const auto end = std::ranges::find(bytes, std::byte{0});
  Unwrapped result{.name = std::string(reinterpret_cast<const char*>(bytes.data()),
                                       static_cast<std::size_t>(end - bytes.begin()))};
  if (end != bytes.end()) result.bytes.assign(end + 1, bytes.end());
  return result;
}

Blob blob_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {first, first + text.size()};
}

}  // namespace

PmixJob::PmixJob(const LaunchEnvironment& environment, double timeout_s) : client_(environment, timeout_s) {
  const int size = client_.job_size();
  check_pmix_answer(client_.name_space(), size, environment);
  // exchange() needs rank and size; the rest follows from the host names.
  info_.rank = client_.rank();
  info_.size = size;
  info_ = place_rank(info_.rank, all_hosts());
  info_.launcher = environment.slurm_server() ? "slurm" : "mpirun";
}

std::string PmixJob::next_key() {
  return str("echelon.", round_++);
}

std::vector<std::string> PmixJob::all_hosts() {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < info_.size; ++rank) {
    auto host = client_.host_of(rank);
    // A server answers this for all ranks or only for its own node's. So all ranks take the same branch here,
    // which matters because exchange_host_names() is collective.
    if (!host || host->empty()) return exchange_host_names();
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

std::vector<std::string> PmixJob::exchange_host_names() {
  const std::string name = host_name();
  if (name.empty()) throw Error(Code::kEnvironment, "the system does not report this node's name");
  return mapped(exchange("host names", blob_of(name)), [](const Blob& blob) {
    return std::string(reinterpret_cast<const char*>(blob.data()), blob.size());
  });
}

std::vector<Blob> PmixJob::exchange(std::string_view name, const Blob& mine) {
  const std::string key = next_key();
  client_.publish(key, wrap(name, mine));
  if (info_.size > 1 && !client_.fence(true, str("exchange '", name, "' of ", info_.size, " ranks"))) {
    report_missing(name, key);
  }
  std::vector<Blob> all;
  for (int rank = 0; rank < info_.size; ++rank) {
    if (rank == info_.rank) {
      all.push_back(mine);
      continue;
    }
    const auto bytes = client_.published(rank, key, client_.timeout_s());
    if (!bytes) {
      throw Error(Code::kPeer, "exchange '", name, "': rank ", rank,
                  " took part, but its data did not arrive within ", client_.timeout_s(), " s; ",
                  client_.circumstances());
    }
    Unwrapped theirs = unwrap(*bytes);
    if (theirs.name != name) {
      throw Error(Code::kPeer, "rank ", rank, " is at exchange '", theirs.name, "' where rank ", info_.rank,
                  " is at exchange '", name, "': the ranks do not run the same program or recipe");
    }
    all.push_back(std::move(theirs.bytes));
  }
  return all;
}

void PmixJob::fence(std::string_view name) {
  if (info_.size == 1) return;
  // The key serves only to name the missing ranks after a timeout.
  const std::string key = next_key();
  client_.publish(key, wrap(name, {}));
  if (!client_.fence(false, str("fence '", name, "' of ", info_.size, " ranks"))) report_missing(name, key);
}

void PmixJob::report_missing(std::string_view name, const std::string& key) const {
  constexpr std::size_t kMostNamed = 16;
  const double patience_s = std::max(0.2, std::min(1.0, 5.0 / info_.size));
  std::vector<int> silent;
  for (int rank = 0; rank < info_.size && silent.size() < kMostNamed; ++rank) {
    if (rank != info_.rank && !client_.published(rank, key, patience_s / 2)) silent.push_back(rank);
  }
  // Ranks that arrived end once they have found who is missing, and say nothing from then on: whoever may
  // only have been slow to answer is asked again at once, the last one first.
  std::vector<std::string> missing;
  for (auto rank = silent.rbegin(); rank != silent.rend(); ++rank) {
    if (client_.published(*rank, key, patience_s)) continue;
    const bool placed = static_cast<int>(info_.hosts.size()) > *rank;
    missing.push_back(placed ? str(*rank, " (", info_.hosts[static_cast<std::size_t>(*rank)], ")")
                             : str(*rank));
  }
  std::ranges::reverse(missing);
  const std::string who = missing.empty() ? "all ranks arrived, but too late, or the server lost them"
                                          : str("no sign of rank ", join(missing, ", "));
  throw Error(Code::kPeer, "waited ", client_.timeout_s(), " s for all ", info_.size, " ranks at '", name,
              "': ", who, "; ", client_.circumstances());
}

void PmixJob::abort(int exit_code, const std::string& reason) {
  client_.abort(exit_code, reason);
}

void PmixJob::finish() {
  fence("end of the job");
  client_.finalize();
}

}  // namespace echelon
