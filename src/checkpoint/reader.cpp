#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/bulk_read.h"
#include "checkpoint/contents.h"
#include "checkpoint/files.h"
#include "checkpoint/geometry.h"

namespace echelon::checkpoint {
namespace {

/// A stored piece as read() needs it.
struct Piece {
  const ShardIndex* shard = nullptr;
  const ShardEntry* entry = nullptr;
};

struct Tensor {
  const TensorInfo* info = nullptr;
  std::vector<Piece> pieces;  ///< by rising begin, without hole or overlap (checked when opened)
};

}  // namespace

struct Reader::Impl {
  Contents contents;
  std::unordered_map<std::string, Tensor> tensors;

  [[nodiscard]] const ManifestShard& file_of(const ShardIndex& shard) const {
    return contents.manifest.shards[static_cast<std::size_t>(shard.rank)];
  }
  [[nodiscard]] const Tensor& at(const std::string& name) const;
  /// Throws unless elements [begin, end) exist and fill `out` exactly.
  const Tensor& checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                        std::size_t out) const;
  void read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out) const;
};

Reader::Reader(const std::filesystem::path& folder) : Reader(open_newest(folder)) {}

Reader::Reader(Contents contents) : impl_(std::make_unique<Impl>()) {
  impl_->contents = std::move(contents);
  for (const TensorInfo& info : impl_->contents.manifest.tensors) impl_->tensors[info.name].info = &info;
  for (const ShardIndex& shard : impl_->contents.shards) {
    for (const ShardEntry& entry : shard.entries)
      impl_->tensors[entry.tensor.name].pieces.push_back({&shard, &entry});
  }
  for (auto& [name, tensor] : impl_->tensors) {
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.entry->begin < b.entry->begin; });
  }
}

Reader::~Reader() = default;

const std::filesystem::path& Reader::folder() const {
  return impl_->contents.folder;
}
std::int64_t Reader::step() const {
  return impl_->contents.manifest.step;
}
const std::string& Reader::save_id() const {
  return impl_->contents.manifest.save_id;
}
int Reader::ranks() const {
  return static_cast<int>(impl_->contents.shards.size());
}
const std::string& Reader::trainer_state() const {
  return impl_->contents.manifest.trainer_state;
}
const std::vector<TensorInfo>& Reader::tensors() const {
  return impl_->contents.manifest.tensors;
}

const TensorInfo* Reader::find(const std::string& name) const {
  const auto found = impl_->tensors.find(name);
  return found == impl_->tensors.end() ? nullptr : found->second.info;
}

const Tensor& Reader::Impl::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw Error(Code::kCheckpoint,
                str("checkpoint '", contents.folder.string(), "' has no tensor '", name, "'"));
  }
  return found->second;
}

std::vector<StoredRange> Reader::stored_ranges(const std::string& name) const {
  std::vector<StoredRange> ranges;
  for (const Piece& piece : impl_->at(name).pieces) {
    ranges.push_back({piece.entry->begin, piece.entry->end, piece.shard->rank});
  }
  return ranges;
}

std::uint32_t Reader::checksum(const std::string& name) const {
  std::uint32_t crc = 0;
  for (const Piece& piece : impl_->at(name).pieces)
    crc = crc32c_combine(crc, piece.entry->crc, piece.entry->bytes);
  return crc;
}

std::optional<std::uint64_t> Reader::fingerprint(const std::string& name) const {
  const Manifest& manifest = impl_->contents.manifest;
  if (manifest.digests.empty()) return std::nullopt;
  return manifest.digests[static_cast<std::size_t>(impl_->at(name).info - manifest.tensors.data())]
      .fingerprint;
}

std::vector<std::string> Reader::attachments() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : impl_->contents.manifest.attachments) names.push_back(name);
  return names;
}

std::string Reader::attachment(const std::string& name) const {
  return load_attachment(impl_->contents, name);
}

const Tensor& Reader::Impl::checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                                    std::size_t out) const {
  const Tensor& tensor = at(name);
  const std::uint64_t elements = element_count(*tensor.info);
  if (begin > end || end > elements || out != (end - begin) * size_of(tensor.info->dtype)) {
    throw Error(Code::kCheckpoint, str("tensor '", name, "' of ", elements, " elements cannot give elements ",
                                       begin, " to ", end, " into a buffer of ", out, " bytes"));
  }
  return tensor;
}

void Reader::read_many(std::span<const Request> requests) const {
  constexpr int kThreads = 4;
  std::vector<WantedPart> parts;
  for (const Request& request : requests) {
    const Tensor& stored = impl_->checked(request.tensor, request.begin, request.end, request.out.size());
    const std::uint64_t size = size_of(stored.info->dtype);
    for (const Piece& piece : stored.pieces) {
      const ShardEntry& entry = *piece.entry;
      const std::uint64_t begin = std::max(request.begin, entry.begin);
      const std::uint64_t end = std::min(request.end, entry.end);
      if (begin >= end) continue;
      parts.push_back({.shard = static_cast<std::size_t>(piece.shard->rank),
                       .entry = static_cast<std::size_t>(piece.entry - piece.shard->entries.data()),
                       .begin = (begin - entry.begin) * size,
                       .end = (end - entry.begin) * size,
                       .to = request.out.data() + (begin - request.begin) * size});
    }
  }
  read_parts(impl_->contents, parts, kThreads);
}

void Reader::read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
                  std::span<std::byte> out) const {
  const Tensor& stored = impl_->checked(tensor, begin, end, out.size());
  const std::uint64_t size = size_of(stored.info->dtype);
  const std::vector<Piece>& pieces = stored.pieces;
  auto piece = std::partition_point(pieces.begin(), pieces.end(),
                                    [&](const Piece& p) { return p.entry->end <= begin; });
  for (std::uint64_t at = begin; at < end; ++piece) {
    const std::uint64_t stop = std::min(end, piece->entry->end);
    const std::uint64_t first = piece->entry->begin;
    impl_->read_piece(*piece, (at - first) * size, (stop - first) * size,
                      out.subspan((at - begin) * size, (stop - at) * size));
    at = stop;
  }
}

namespace {

/// Reads blocks of one piece and compares their checksums; says where when one differs.
class BlockReader {
 public:
  BlockReader(const std::filesystem::path& path, const Piece& piece, std::uint64_t expected_bytes)
      : path_(path), piece_(piece), file_(open_input(path)) {
    if (file_.bytes != expected_bytes) {
      throw Error(Code::kCheckpoint, str("shard '", path.string(), "' changed from ", expected_bytes, " to ",
                                         file_.bytes, " bytes while it was read"));
    }
  }

  [[nodiscard]] std::uint64_t block_bytes() const { return piece_.shard->block_bytes; }

  /// Whole blocks, from byte `at` of the piece on, straight to where they are wanted.
  void blocks(std::uint64_t at, std::span<std::byte> to) const {
    in_context(str("tensor '", piece_.entry->tensor.name, "' of rank ", piece_.shard->rank),
               [&] { fs::read_at(file_.fd, piece_.entry->file_offset + at, to, Code::kCheckpoint, path_); });
    for (std::uint64_t done = 0; done < to.size(); done += block_bytes()) {
      const auto block = to.subspan(done, std::min<std::uint64_t>(block_bytes(), to.size() - done));
      const std::uint64_t number = piece_.entry->first_block + (at + done) / block_bytes();
      if (crc32c(block) != piece_.shard->block_crcs[number]) fail(at + done, block.size());
    }
  }

 private:
  [[noreturn]] void fail(std::uint64_t at, std::uint64_t size) const {
    refuse_block(path_, piece_.shard->rank, *piece_.entry, at, size);
  }

  std::filesystem::path path_;
  Piece piece_;
  InputFile file_;
};

}  // namespace

// [begin, end) are bytes of the piece. Blocks wanted whole are read in place; the ragged ones at the ends go
// through a scratch block, because a checksum only says something about a whole block.
void Reader::Impl::read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end,
                              std::span<std::byte> out) const {
  const ManifestShard& file = file_of(*piece.shard);
  const BlockReader reader(contents.folder / file.file, piece, file.bytes);
  const std::uint64_t block = reader.block_bytes();
  const std::uint64_t total = piece.entry->bytes;
  std::vector<std::byte> scratch;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t start = at / block * block;
    const std::uint64_t whole_end = end == total ? end : end / block * block;
    if (start == at && whole_end > at) {
      reader.blocks(at, out.subspan(at - begin, whole_end - at));
      at = whole_end;
      continue;
    }
    const std::uint64_t stop = std::min(start + block, total);
    scratch.resize(stop - start);
    reader.blocks(start, scratch);
    const std::uint64_t wanted = std::min(stop, end) - at;
    std::memcpy(out.data() + (at - begin), scratch.data() + (at - start), wanted);
    at += wanted;
  }
}

}  // namespace echelon::checkpoint
