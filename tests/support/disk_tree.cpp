#include "support/disk_tree.h"

#include <algorithm>
#include <functional>

#include "base/str.h"

namespace echelon::test {
namespace {

/// Parts of a path, without those that name the folder they stand in.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

}  // namespace

DiskTree::DiskTree(std::string_view folder) {
  int at = add(true);
  for (const std::string& part : parts_of(folder)) {
    const int next = add(true);
    link(at, part, next);
    at = next;
  }
}

int DiskTree::find(std::string_view path) const {
  int at = kRoot;
  for (const std::string& part : parts_of(path)) {
    if (at == kNone || !this->at(at).folder) return kNone;
    at = entry(at, part);
  }
  // "file/." is no file.
  const bool wants_folder = path.ends_with('/') || path.ends_with("/.");
  return at != kNone && wants_folder && !this->at(at).folder ? kNone : at;
}

std::pair<int, std::string> DiskTree::place_of(std::string_view path) const {
  std::vector<std::string> parts = parts_of(path);
  if (parts.empty()) return {kNone, ""};
  std::string name = std::move(parts.back());
  parts.pop_back();
  const int folder = find(join(parts, "/"));
  return {folder != kNone && at(folder).folder ? folder : kNone, std::move(name)};
}

int DiskTree::entry(int folder, const std::string& name) const {
  const auto& entries = at(folder).entries;
  const auto found = entries.find(name);
  return found == entries.end() ? kNone : found->second;
}

std::uint64_t DiskTree::size(int file) const {
  return at(file).bytes == nullptr ? 0 : at(file).bytes->size();
}

int DiskTree::add(bool folder) {
  nodes_.push_back({.folder = folder, .bytes = nullptr, .entries = {}});
  return count() - 1;
}

void DiskTree::link(int folder, const std::string& name, int node) {
  auto& entries = nodes_[static_cast<std::size_t>(folder)].entries;
  if (node == kNone) {
    entries.erase(name);
  } else {
    entries[name] = node;
  }
}

DiskTree::Bytes& DiskTree::change(int file) {
  std::shared_ptr<Bytes>& bytes = nodes_[static_cast<std::size_t>(file)].bytes;
  if (bytes == nullptr) {
    bytes = std::make_shared<Bytes>();
  } else if (bytes.use_count() > 1) {
    bytes = std::make_shared<Bytes>(*bytes);
  }
  return *bytes;
}

void DiskTree::write(int file, std::uint64_t offset, const std::byte* bytes, std::size_t size) {
  Bytes& all = change(file);
  if (all.size() < offset + size) all.resize(offset + size);
  std::copy_n(bytes, size, all.begin() + static_cast<std::ptrdiff_t>(offset));
}

std::uint64_t DiskTree::fingerprint() const {
  std::uint64_t sum = 0;
  const std::function<void(int, const std::string&)> visit = [&](int node, const std::string& path) {
    const Node& here = at(node);
    const std::hash<std::string_view> hash;
    const std::string_view bytes =
        here.bytes == nullptr
            ? std::string_view()
            : std::string_view(reinterpret_cast<const char*>(here.bytes->data()), here.bytes->size());
    sum += hash(path) * 0x9E3779B97F4A7C15U + (hash(bytes) ^ (here.folder ? 1U : 2U)) * (hash(path) | 1U);
    for (const auto& [name, child] : here.entries) visit(child, str(path, '/', name));
  };
  visit(kRoot, "");
  return sum;
}

std::string DiskTree::text() const {
  std::string lines;
  const std::function<void(int, const std::string&)> visit = [&](int node, const std::string& path) {
    for (const auto& [name, child] : at(node).entries) {
      const std::string below = str(path, '/', name);
      lines += at(child).folder ? str(below, "/\n") : str(below, ' ', size(child), '\n');
      visit(child, below);
    }
  };
  visit(kRoot, "");
  return lines;
}

}  // namespace echelon::test
