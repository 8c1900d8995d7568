#include "checkpoints_tool/convert/tensor_source.h"

#include <algorithm>
#include <vector>

#include "base/checksum/crc32c.h"
#include "base/checksum/crc64.h"
#include "base/error.h"
#include "checkpoint/format/geometry.h"
#include "checkpoints_tool/progress.h"

namespace echelon::tool {

using checkpoint::BaseNote;
using checkpoint::TensorInfo;

void TensorSource::open_base(const std::string& folder) {
  if (!note_) {
    if (folder.empty()) return;
    throw Error(Code::kUsage, "checkpoint '", reader_->folder().string(),
                "' holds all of its model; remove --base");
  }
  base_ =
      families::open_base(*note_, {{folder.empty() ? note_->folder : folder}, "name its folder with --base"});
  Progress progress("checking the base", "tensors");
  std::uint64_t done = 0;
  for (const BaseNote::Tensor& noted : note_->tensors) {
    const checkpoint::TensorDigest digest = digest_of(*base_, noted.info);
    base_->require_same(noted, digest.fingerprint);
    checksums_[noted.info.name] = digest.crc;
    progress.show(++done, note_->tensors.size());
  }
}

const TensorInfo* TensorSource::find(const std::string& name) const {
  if (const TensorInfo* stored = reader_->find(name); stored != nullptr || !note_) return stored;
  const BaseNote::Tensor* noted = note_->find(name);
  return noted == nullptr ? nullptr : &noted->info;
}

void TensorSource::read(const std::string& name, std::uint64_t begin, std::uint64_t end,
                        std::span<std::byte> out) const {
  if (!checksums_.contains(name)) return reader_->read(name, begin, end, out);
  base_->read(name, begin, note_->find(name)->info.dtype, out);
}

std::uint32_t TensorSource::checksum(const std::string& name) const {
  const auto of_base = checksums_.find(name);
  return of_base == checksums_.end() ? reader_->checksum(name) : of_base->second;
}

checkpoint::TensorDigest digest_of(const families::BaseWeights& base, const TensorInfo& info) {
  if (const auto known = base.fingerprint(info.name, info.dtype))
    return {base.checkpoint()->checksum(info.name), *known};
  constexpr std::uint64_t kElementsAtOnce = std::uint64_t{1} << 20;
  checkpoint::TensorDigest digest;
  std::vector<std::byte> bytes;
  const std::uint64_t elements = checkpoint::element_count(info);
  for (std::uint64_t at = 0; at < elements; at += kElementsAtOnce) {
    bytes.resize(std::min(kElementsAtOnce, elements - at) * size_of(info.dtype));
    base.read(info.name, at, info.dtype, bytes);
    digest.crc = crc32c(bytes, digest.crc);
    digest.fingerprint = crc64(bytes, digest.fingerprint);
  }
  return digest;
}

}  // namespace echelon::tool
