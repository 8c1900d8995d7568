#include "support/crash_model.h"

#include <algorithm>
#include <stdexcept>

#include "base/str.h"

namespace echelon::test {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kSectorBytes = 512;

// What may have become of a page. A page of one sector cannot tear.
enum Outcome {
  kLost,
  kWhole,
  kZeros,
  kForeign,
  kOutcomesOfASector,
  kHead = kOutcomesOfASector,
  kTail,
  kOutcomes
};

}  // namespace

CrashModel::CrashModel(DiskTree start) : visible_(start), durable_(std::move(start)) {}

void CrashModel::apply(const Operation& operation) {
  if (operation.kind == Operation::Kind::kNote) return;
  const auto [folder, name] = visible_.place_of(operation.path);
  switch (operation.call) {
    case DiskCall::kOpen:
    case DiskCall::kCreate: return opened(operation);
    case DiskCall::kWrite: return written(operation);
    case DiskCall::kReserve:
    case DiskCall::kResize:
      changes_.push_back({.kind = Kind::kSize,
                          .node = files_.at(operation.handle),
                          .size = operation.size,
                          .grows_only = operation.call == DiskCall::kReserve});
      return;
    case DiskCall::kFlush: return flushed(files_.at(operation.handle));
    case DiskCall::kRename: return renamed(operation);
    case DiskCall::kLink: {
      const auto [to_folder, to_name] = visible_.place_of(operation.to);
      return named(to_folder, {{to_name, visible_.find(operation.path)}});
    }
    case DiskCall::kUnlink:
    case DiskCall::kRmdir: return named(folder, {{name, DiskTree::kNone}});
    case DiskCall::kMkdir: (void)durable_.add(true); return named(folder, {{name, visible_.add(true)}});
    default: throw std::logic_error("a history holds a call that changes nothing");
  }
}

void CrashModel::opened(const Operation& operation) {
  int node = visible_.find(operation.path);
  if (node == DiskTree::kNone) {
    (void)durable_.add(false);
    node = visible_.add(false);
    const auto [folder, name] = visible_.place_of(operation.path);
    named(folder, {{name, node}});
  } else if (operation.truncates) {
    changes_.push_back({.kind = Kind::kSize, .node = node, .size = 0});
  }
  files_[operation.handle] = node;
}

void CrashModel::written(const Operation& operation) {
  const int node = files_.at(operation.handle);
  const std::uint64_t end = operation.offset + operation.bytes.size();
  for (std::uint64_t at = operation.offset; at < end;) {
    const std::uint64_t stop = std::min(end, at / kPageBytes * kPageBytes + kPageBytes);
    const auto from = operation.bytes.begin() + static_cast<std::ptrdiff_t>(at - operation.offset);
    changes_.push_back({.kind = Kind::kPage,
                        .node = node,
                        .offset = at,
                        .bytes = {from, from + static_cast<std::ptrdiff_t>(stop - at)}});
    at = stop;
  }
}

void CrashModel::named(int folder, std::vector<std::pair<std::string, int>> names) {
  for (const auto& [name, node] : names) visible_.link(folder, name, node);
  changes_.push_back({.kind = Kind::kNames, .node = folder, .names = std::move(names)});
}

void CrashModel::renamed(const Operation& operation) {
  const auto [folder, name] = visible_.place_of(operation.path);
  const auto [to_folder, to_name] = visible_.place_of(operation.to);
  if (folder != to_folder) {
    throw std::logic_error(str("renamed from one folder to another, which CrashModel does not know: ",
                               operation.path, " to ", operation.to));
  }
  const int node = visible_.entry(folder, name);
  named(folder, {{name, DiskTree::kNone}, {to_name, node}});
}

void CrashModel::flushed(int node) {
  for (const Change& change : changes_) {
    if (change.node == node) happen(change, kWhole, durable_);
  }
  std::erase_if(changes_, [&](const Change& change) { return change.node == node; });
}

int CrashModel::outcomes(const Change& change) {
  if (change.kind != Kind::kPage) return 2;
  return change.bytes.size() > kSectorBytes ? kOutcomes : kOutcomesOfASector;
}

void CrashModel::happen(const Change& change, int outcome, DiskTree& tree) {
  if (outcome == kLost) return;
  if (change.kind == Kind::kNames) {
    for (const auto& [name, node] : change.names) tree.link(change.node, name, node);
    return;
  }
  if (change.kind == Kind::kSize) {
    if (!change.grows_only || tree.size(change.node) < change.size)
      tree.change(change.node).resize(change.size);
    return;
  }
  DiskTree::Bytes bytes = change.bytes;
  std::uint64_t offset = change.offset;
  // The last sector border inside; the tail alone leaves what was there before it.
  const std::uint64_t border = (bytes.size() - 1) / 2 / kSectorBytes * kSectorBytes + kSectorBytes;
  if (outcome == kZeros) std::fill(bytes.begin(), bytes.end(), std::byte{0});
  if (outcome == kForeign) std::fill(bytes.begin(), bytes.end(), std::byte{0xA5});
  if (outcome == kHead) bytes.resize(border);
  if (outcome == kTail) {
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(border));
    offset += border;
  }
  tree.write(change.node, offset, bytes.data(), bytes.size());
}

std::vector<int> CrashModel::uncertain() const {
  return mapped(changes_, [&](const Change& change) { return outcomes(change); });
}

DiskTree CrashModel::state(const std::vector<int>& outcomes) const {
  DiskTree tree = durable_;
  for (std::size_t i = 0; i < changes_.size(); ++i) happen(changes_[i], outcomes.at(i), tree);
  return tree;
}

std::vector<std::vector<int>> CrashModel::outcomes_to_try(std::size_t most, std::mt19937_64& random) const {
  const std::vector<int> counts = uncertain();
  std::size_t product = 1;
  for (const int count : counts) product = std::min(product * static_cast<std::size_t>(count), most + 1);
  std::vector<std::vector<int>> found;
  if (product <= most) {
    std::vector<int> outcome(counts.size(), 0);
    for (std::size_t n = 0; n < product; ++n) {
      found.push_back(outcome);
      for (std::size_t i = 0; i < counts.size() && ++outcome[i] == counts[i]; ++i) outcome[i] = 0;
    }
    return found;
  }
  const std::vector<int> none(counts.size(), kLost);
  const std::vector<int> all(counts.size(), kWhole);
  found = {none, all};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (int outcome = 0; outcome < counts[i]; ++outcome) {
      for (const auto& base : {none, all}) {
        if (base[i] == outcome || found.size() >= most) continue;
        found.push_back(base);
        found.back()[i] = outcome;
      }
    }
  }
  while (found.size() < most) {
    // From nearly nothing to nearly everything.
    const std::uint64_t likely = random() % 9;
    found.push_back(none);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (random() % 9 >= likely) continue;
      found.back()[i] =
          random() % 2 == 0 ? kWhole : static_cast<int>(random() % static_cast<unsigned>(counts[i]));
    }
  }
  return found;
}

}  // namespace echelon::test
