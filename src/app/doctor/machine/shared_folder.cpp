#include "app/doctor/machine/shared_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include "app/doctor/machine/folder_probe.h"
#include "app/doctor/rates/exchange.h"
#include "app/doctor/rates/rates.h"
#include "base/files/fs.h"
#include "base/net/node_layout.h"
#include "base/str.h"

namespace echelon::app::doctor {
namespace {

/// The number of other nodes' files that each node looks for.
constexpr int kMostLooks = 16;

/// The best of several writes counts, because others use the file system too.
constexpr int kWrites = 3;

/// Results of the first rank of a node; other ranks send an empty value.
struct Writing {
  std::string path;   ///< its own folder; empty if it could not be created
  std::string fault;  ///< error of creating or writing
  double seconds = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Writing, path, fault, seconds)

struct Looking {
  std::vector<std::string> unseen;  ///< hosts whose folder is not visible here
  std::string locking;              ///< fault of rank 0's lock as seen from here, or ""
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Looking, unseen, locking)

/// The first rank of each node.
std::vector<int> leaders_of(const JobInfo& info) {
  const NodeLayout layout(info.hosts);
  std::vector<int> leaders;
  for (int node = 0; node < layout.nodes(); ++node) leaders.push_back(layout.ranks_of(node).front());
  return leaders;
}

Writing write_here(std::optional<fs::NewFolder>& probe, const std::filesystem::path& folder,
                   std::uint64_t bytes) {
  Writing writing;
  try {
    probe.emplace(nearest_folder(folder) / kProbe, Code::kEnvironment);
    writing.path = probe->path().string();
    writing.seconds = timed_write(probe->path() / "data", bytes);
    for (int repeat = 1; repeat < kWrites; ++repeat)
      writing.seconds = std::min(writing.seconds, timed_write(probe->path() / str("data-", repeat), bytes));
  } catch (const Error& error) {
    writing.fault = printable(error.what(), 400);
  }
  return writing;
}

/// Tries to get the lock that rank 0 holds. Returns the fault, or "".
std::string try_foreign_lock(const std::filesystem::path& file) {
  try {
    const fs::Fd fd = fs::open(file, O_RDWR, Code::kEnvironment);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return "gets a lock that another node holds";
    return errno == EWOULDBLOCK ? "" : "cannot lock: " + fs::reason(errno);
  } catch (const Error& error) {
    return printable(error.what(), 160);
  }
}

Looking look_around(const JobInfo& info, const std::vector<int>& leaders, const std::vector<Writing>& all) {
  Looking looking;
  const auto nodes = static_cast<int>(leaders.size());
  for (int step = 1; step < nodes && step <= kMostLooks; ++step) {
    const auto rank = static_cast<std::size_t>(leaders[static_cast<std::size_t>((info.node + step) % nodes)]);
    std::error_code error;
    if (!all[rank].path.empty() && !std::filesystem::exists(all[rank].path + "/data", error) &&
        all[rank].fault.empty())
      looking.unseen.push_back(info.hosts[rank]);
  }
  const Writing& first = all[0];
  const bool sees_first =
      looking.unseen.empty() || std::ranges::find(looking.unseen, info.hosts[0]) == looking.unseen.end();
  const Writing& mine = all[static_cast<std::size_t>(info.rank)];
  if (info.node != 0 && mine.fault.empty() && first.fault.empty() && sees_first)
    looking.locking = try_foreign_lock(first.path + "/data");
  return looking;
}

struct Outcome {
  std::vector<Writing> writings;
  std::vector<Looking> lookings;
};

Outcome try_out(Job& job, const std::vector<int>& leaders, const std::filesystem::path& folder,
                std::uint64_t bytes) {
  const JobInfo& info = job.info();
  const bool leads = leaders[static_cast<std::size_t>(info.node)] == info.rank;
  std::optional<fs::NewFolder> probe;
  job.fence("doctor folder");  // all nodes write at the same time, as in a save
  const Writing mine = leads ? write_here(probe, folder, bytes) : Writing{};
  fs::Fd held;
  if (info.rank == 0 && mine.fault.empty()) {
    held = fs::open(mine.path + "/data", O_RDWR, Code::kEnvironment);
    (void)::flock(held.get(), LOCK_EX | LOCK_NB);  // a failure is noticed by the ranks that get the lock
  }
  Outcome outcome;
  outcome.writings = exchange_facts(job, "doctor writing", mine);
  const Looking looking = leads ? look_around(info, leaders, outcome.writings) : Looking{};
  outcome.lookings = exchange_facts(job, "doctor looking", looking);
  return outcome;
}

/// By host: how many nodes did not find its files.
std::map<std::string, std::size_t> misses_of(const Outcome& outcome) {
  std::map<std::string, std::size_t> misses;
  for (const Looking& looking : outcome.lookings)
    for (const std::string& host : looking.unseen) ++misses[host];
  return misses;
}

/// If most nodes miss the files of one node, that node is the faulty one.
Finding judge_sharing(const JobInfo& info, const std::vector<int>& leaders, const Outcome& outcome,
                      const std::string& folder) {
  Complaints complaints;
  const auto complain = [&](std::size_t rank, const std::string& text) {
    complaints.add(info.hosts[rank], info.hosts[rank] + " " + text);
  };
  const std::map<std::string, std::size_t> misses = misses_of(outcome);
  const std::size_t looks = std::min<std::size_t>(leaders.size() - 1, kMostLooks);
  const auto apart = [&](const std::string& host) {
    const auto found = misses.find(host);
    return found != misses.end() && 2 * found->second > looks;
  };
  for (const int leader : leaders) {
    const auto rank = static_cast<std::size_t>(leader);
    const Writing& writing = outcome.writings[rank];
    std::vector<std::string> unseen;
    for (const std::string& host : outcome.lookings[rank].unseen)
      if (!apart(host)) unseen.push_back(host);
    if (!writing.fault.empty())
      complain(rank, str("cannot write in '", folder, "': ", writing.fault));
    else if (apart(info.hosts[rank]))
      complain(rank, str("is isolated: ", misses.at(info.hosts[rank]), " of ", looks,
                         " nodes do not see what it wrote in '", folder, "'"));
    else if (!unseen.empty())
      complain(rank, str("does not see what ", listed(unseen, 3), " wrote in '", folder, "'"));
  }
  const std::string several = leaders.size() == 1 ? "" : str(" and shared by ", leaders.size(), " nodes");
  if (complaints.none()) return ok("shared_folder", str("'", folder, "' can be written", several));
  // Advice to exclude every node would be useless.
  if (complaints.nodes.size() == leaders.size()) complaints.nodes.clear();
  return fault(
      "shared_folder", listed(complaints.texts, 4),
      "keep runs on a file system that every node mounts for writing (--folder, run.dir); remount it on "
      "the nodes named or leave them out (--exclude)",
      complaints.nodes);
}

}  // namespace

std::vector<Finding> examine_shared_folder(Job& job, const std::filesystem::path& folder, std::uint64_t bytes,
                                           double slow) {
  const JobInfo& info = job.info();
  const std::vector<int> leaders = leaders_of(info);
  const Outcome outcome = try_out(job, leaders, folder, bytes);
  std::vector<Finding> findings{judge_sharing(info, leaders, outcome, folder.string())};
  std::vector<Rate> rates;
  std::vector<std::string> unlocked;
  for (const int leader : leaders) {
    const auto rank = static_cast<std::size_t>(leader);
    const Writing& writing = outcome.writings[rank];
    if (writing.fault.empty() && writing.seconds > 0)
      rates.push_back({info.hosts[rank], static_cast<double>(bytes) / writing.seconds / 1e6});
    if (!outcome.lookings[rank].locking.empty())
      unlocked.push_back(info.hosts[rank] + " " + outcome.lookings[rank].locking);
  }
  if (!rates.empty()) {
    Finding speed =
        judge_rates("shared_write", "writes and syncs", "MB/s", rates, slow,
                    "run it again; if the same nodes are named, look at their network and mount options");
    // Only a warning: a slow file system delays saves only, and its load from other users varies.
    speed.verdict = std::min(speed.verdict, Verdict::kWarning);
    findings.push_back(std::move(speed));
  }
  if (!unlocked.empty()) {
    findings.push_back(warning(
        "shared_locks", str(listed(unlocked, 4), ": nothing prevents two jobs from using one run folder"),
        "mount Lustre with flock (not localflock) and NFS with its lock manager"));
  } else if (findings[0].verdict == Verdict::kOk && leaders.size() > 1) {
    findings.push_back(ok("shared_locks", "a lock that one node holds keeps the others out"));
  }
  return findings;
}

}  // namespace echelon::app::doctor
