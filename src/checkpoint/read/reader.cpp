#include "checkpoint/read/reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/folder/contents.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/bulk_read.h"
#include "checkpoint/read/shard_indexes.h"

namespace echelon::checkpoint {
namespace {

/// A stored piece with its shard's index and entry.
struct Piece {
  const ShardIndex& shard;
  const ShardEntry& entry;
};

using Pieces = std::vector<StoredPiece>;

/// The first piece that ends after element `begin`.
Pieces::const_iterator first_behind(const Pieces& pieces, std::uint64_t begin) {
  return std::ranges::partition_point(pieces, [&](const StoredPiece& piece) { return piece.end <= begin; });
}

struct Tensor {
  const TensorInfo& info;
  const Pieces& pieces;  ///< by increasing begin, without hole or overlap (checked when opened)
};

}  // namespace

struct Reader::Impl {
  explicit Impl(Outline opened) : outline(std::move(opened)), indexes(outline.folder, outline.manifest) {
    number_tensors();
  }
  explicit Impl(Contents contents)
      : outline(outline_of(contents)), indexes(outline.folder, outline.manifest, std::move(contents.shards)) {
    number_tensors();
  }

  Outline outline;
  ShardIndexes indexes;
  std::unordered_map<std::string_view, std::size_t> numbers;  ///< of manifest.tensors, by name

  void number_tensors() {
    const std::vector<TensorInfo>& tensors = outline.manifest.tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) numbers[tensors[i].name] = i;
  }
  [[nodiscard]] Tensor at(const std::string& name) const;
  /// Throws unless elements [begin, end) exist and fill `out` exactly.
  [[nodiscard]] Tensor checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                               std::size_t out) const;
  /// Loads the index of its shard. Throws if it differs from what was read when the checkpoint was opened.
  [[nodiscard]] Piece find(const Tensor& tensor, const StoredPiece& stored) const;
  void read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end, std::span<std::byte> out) const;
};

Reader::Reader(const std::filesystem::path& folder) : impl_(std::make_unique<Impl>(open_newest(folder))) {}

Reader::Reader(Contents contents) : impl_(std::make_unique<Impl>(std::move(contents))) {}

Reader::~Reader() = default;

const std::filesystem::path& Reader::folder() const {
  return impl_->outline.folder;
}
std::int64_t Reader::step() const {
  return impl_->outline.manifest.step;
}
const std::string& Reader::save_id() const {
  return impl_->outline.manifest.save_id;
}
const std::string& Reader::resumed_from() const {
  return impl_->outline.manifest.resumed_from;
}
int Reader::ranks() const {
  return static_cast<int>(impl_->indexes.ranks());
}
const std::string& Reader::trainer_state() const {
  return impl_->outline.manifest.trainer_state;
}
const std::vector<TensorInfo>& Reader::tensors() const {
  return impl_->outline.manifest.tensors;
}

const TensorInfo* Reader::find(const std::string& name) const {
  const auto found = impl_->numbers.find(name);
  return found == impl_->numbers.end() ? nullptr : &impl_->outline.manifest.tensors[found->second];
}

Tensor Reader::Impl::at(const std::string& name) const {
  const auto found = numbers.find(name);
  if (found == numbers.end()) {
    throw Error(Code::kCheckpoint, "checkpoint '", outline.folder.string(), "' has no tensor '", name, "'");
  }
  return {outline.manifest.tensors[found->second], outline.pieces[found->second]};
}

Piece Reader::Impl::find(const Tensor& tensor, const StoredPiece& stored) const {
  const ShardIndex& shard = in_context(str("tensor '", tensor.info.name, "' of rank ", stored.rank),
                                       [&]() -> const ShardIndex& { return indexes.of(stored.rank); });
  if (stored.entry < shard.entries.size()) {
    const ShardEntry& entry = shard.entries[stored.entry];
    if (entry.begin == stored.begin && entry.end == stored.end && entry.tensor.name == tensor.info.name)
      return {shard, entry};
  }
  throw Error(Code::kCheckpoint, "shard '", indexes.path(stored.rank).string(), "' (rank ", stored.rank,
              "): its index changed after the checkpoint was opened");
}

std::span<const StoredPiece> Reader::pieces(const std::string& name) const {
  return impl_->at(name).pieces;
}

std::uint32_t Reader::checksum(const std::string& name) const {
  const Tensor tensor = impl_->at(name);
  std::uint32_t crc = 0;
  for (const StoredPiece& piece : tensor.pieces)
    crc = crc32c_combine(crc, piece.crc, (piece.end - piece.begin) * size_of(tensor.info.dtype));
  return crc;
}

std::optional<std::uint64_t> Reader::fingerprint(const std::string& name) const {
  const Manifest& manifest = impl_->outline.manifest;
  if (manifest.digests.empty()) return std::nullopt;
  return manifest.digests[static_cast<std::size_t>(&impl_->at(name).info - manifest.tensors.data())]
      .fingerprint;
}

std::vector<std::string> Reader::attachments() const {
  return mapped(impl_->outline.manifest.attachments, [](const auto& attachment) { return attachment.first; });
}

std::string Reader::attachment(const std::string& name) const {
  return load_attachment(impl_->outline.folder, impl_->outline.manifest, name);
}

Tensor Reader::Impl::checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                             std::size_t out) const {
  const Tensor tensor = at(name);
  const std::uint64_t elements = element_count(tensor.info);
  if (begin > end || end > elements || out != (end - begin) * size_of(tensor.info.dtype)) {
    throw Error(Code::kCheckpoint, "tensor '", name, "' of ", elements, " elements cannot give elements ",
                begin, " to ", end, " into a buffer of ", out, " bytes");
  }
  return tensor;
}

void Reader::read_many(std::span<const Request> requests) const {
  constexpr int kThreads = 4;
  std::vector<WantedPart> parts;
  for (const Request& request : requests) {
    const Tensor tensor = impl_->checked(request.tensor, request.begin, request.end, request.out.size());
    const std::uint64_t size = size_of(tensor.info.dtype);
    std::uint64_t at = request.begin;
    for (auto piece = first_behind(tensor.pieces, at); at < request.end; ++piece) {
      // Loads and checks the shard's index here, on one thread, so that errors name the tensor.
      (void)impl_->find(tensor, *piece);
      const std::uint64_t end = std::min(request.end, piece->end);
      parts.push_back({.rank = piece->rank,
                       .entry = piece->entry,
                       .begin = (at - piece->begin) * size,
                       .end = (end - piece->begin) * size,
                       .to = request.out.data() + (at - request.begin) * size});
      at = end;
    }
  }
  read_parts(impl_->indexes, parts, kThreads);
}

void Reader::read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
                  std::span<std::byte> out) const {
  const Tensor stored = impl_->checked(tensor, begin, end, out.size());
  const std::uint64_t size = size_of(stored.info.dtype);
  auto piece = first_behind(stored.pieces, begin);
  for (std::uint64_t at = begin; at < end; ++piece) {
    const std::uint64_t stop = std::min(end, piece->end);
    const std::uint64_t first = piece->begin;
    impl_->read_piece(impl_->find(stored, *piece), (at - first) * size, (stop - first) * size,
                      out.subspan((at - begin) * size, (stop - at) * size));
    at = stop;
  }
}

// [begin, end) are bytes of the piece. Whole blocks are read in place; partial ones at the ends go through a
// scratch block, because only a whole block has a checksum.
void Reader::Impl::read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end,
                              std::span<std::byte> out) const {
  const auto rank = static_cast<std::size_t>(piece.shard.rank);
  const std::filesystem::path path = indexes.path(rank);
  const InputFile file = indexes.open(rank);
  const std::uint64_t block = piece.shard.block_bytes;
  // Whole blocks, from byte `at` of the piece on.
  const auto read_blocks = [&](std::uint64_t at, std::span<std::byte> to) {
    in_context(str("tensor '", piece.entry.tensor.name, "' of rank ", piece.shard.rank),
               [&] { fs::read_at(file.fd, piece.entry.file_offset + at, to, Code::kCheckpoint, path); });
    for (std::uint64_t done = 0; done < to.size(); done += block) {
      const auto bytes = to.subspan(done, std::min<std::uint64_t>(block, to.size() - done));
      const std::uint64_t number = piece.entry.first_block + (at + done) / block;
      if (crc32c(bytes) != piece.shard.block_crcs[number])
        refuse_block(path, piece.shard.rank, piece.entry, at + done, bytes.size());
    }
  };
  std::vector<std::byte> scratch;
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t start = at / block * block;
    const std::uint64_t whole_end = end == piece.entry.bytes ? end : end / block * block;
    if (start == at && whole_end > at) {
      read_blocks(at, out.subspan(at - begin, whole_end - at));
      at = whole_end;
      continue;
    }
    const std::uint64_t stop = std::min(start + block, piece.entry.bytes);
    scratch.resize(stop - start);
    read_blocks(start, scratch);
    const std::uint64_t wanted = std::min(stop, end) - at;
    std::memcpy(out.data() + (at - begin), scratch.data() + (at - start), wanted);
    at += wanted;
  }
}

}  // namespace echelon::checkpoint
