#include "checkpoint/read/reader.h"

#include <algorithm>
#include <cstring>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/read/bulk_read.h"

namespace echelon::checkpoint {
namespace {

/// The first piece that ends after element `begin`.
std::vector<StoredPiece>::const_iterator first_behind(const std::vector<StoredPiece>& pieces,
                                                      std::uint64_t begin) {
  return std::ranges::partition_point(pieces, [&](const StoredPiece& piece) { return piece.end <= begin; });
}

}  // namespace

/// A stored piece with its shard's index and entry.
struct Reader::Piece {
  const ShardIndex& shard;
  const ShardEntry& entry;
};

Reader::Reader(const std::filesystem::path& folder)
    : outline_(open_newest(folder)), indexes_(outline_.folder, outline_.manifest) {
  number_tensors();
}

Reader::Reader(Contents contents)
    : outline_(outline_of(contents)),
      indexes_(outline_.folder, outline_.manifest, std::move(contents.shards)) {
  number_tensors();
}

void Reader::number_tensors() {
  for (std::size_t i = 0; i < tensors().size(); ++i) numbers_[tensors()[i].name] = i;
}

const TensorInfo* Reader::find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? nullptr : &tensors()[found->second];
}

std::size_t Reader::number_of(const std::string& name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end())
    throw Error(Code::kCheckpoint, "checkpoint '", folder().string(), "' has no tensor '", name, "'");
  return found->second;
}

Reader::Piece Reader::piece_of(const std::string& name, const StoredPiece& stored) const {
  const ShardIndex& shard = in_context(str("tensor '", name, "' of rank ", stored.rank),
                                       [&]() -> const ShardIndex& { return indexes_.of(stored.rank); });
  if (stored.entry < shard.entries.size()) {
    const ShardEntry& entry = shard.entries[stored.entry];
    if (entry.begin == stored.begin && entry.end == stored.end && entry.tensor.name == name)
      return {shard, entry};
  }
  throw Error(Code::kCheckpoint, "shard '", indexes_.path(stored.rank).string(), "' (rank ", stored.rank,
              "): its index changed after the checkpoint was opened");
}

const std::vector<StoredPiece>& Reader::pieces(const std::string& name) const {
  return outline_.pieces[number_of(name)];
}

std::uint32_t Reader::checksum(const std::string& name) const {
  const std::uint64_t size = size_of(tensors()[number_of(name)].dtype);
  std::uint32_t crc = 0;
  for (const StoredPiece& piece : pieces(name))
    crc = crc32c_combine(crc, piece.crc, (piece.end - piece.begin) * size);
  return crc;
}

std::optional<std::uint64_t> Reader::fingerprint(const std::string& name) const {
  const Manifest& manifest = outline_.manifest;
  if (manifest.digests.empty()) return std::nullopt;
  return manifest.digests[number_of(name)].fingerprint;
}

std::vector<std::string> Reader::attachments() const {
  return mapped(outline_.manifest.attachments, [](const auto& attachment) { return attachment.first; });
}

std::string Reader::attachment(const std::string& name) const {
  return load_attachment(folder(), outline_.manifest, name);
}

std::size_t Reader::checked(const std::string& name, std::uint64_t begin, std::uint64_t end,
                            std::size_t out) const {
  const TensorInfo& tensor = tensors()[number_of(name)];
  const std::uint64_t elements = element_count(tensor);
  if (begin > end || end > elements || out != (end - begin) * size_of(tensor.dtype)) {
    throw Error(Code::kCheckpoint, "tensor '", name, "' of ", elements, " elements cannot give elements ",
                begin, " to ", end, " into a buffer of ", out, " bytes");
  }
  return size_of(tensor.dtype);
}

void Reader::read_many(std::span<const Request> requests) const {
  constexpr int kThreads = 4;
  std::vector<WantedPart> parts;
  for (const Request& request : requests) {
    const std::uint64_t size = checked(request.tensor, request.begin, request.end, request.out.size());
    std::uint64_t at = request.begin;
    for (auto piece = first_behind(pieces(request.tensor), at); at < request.end; ++piece) {
      // Loads and checks the shard's index here, on one thread, so that errors name the tensor.
      (void)piece_of(request.tensor, *piece);
      const std::uint64_t end = std::min(request.end, piece->end);
      parts.push_back({.rank = piece->rank,
                       .entry = piece->entry,
                       .begin = (at - piece->begin) * size,
                       .end = (end - piece->begin) * size,
                       .to = request.out.data() + (at - request.begin) * size});
      at = end;
    }
  }
  read_parts(indexes_, parts, kThreads);
}

void Reader::read(const std::string& tensor, std::uint64_t begin, std::uint64_t end,
                  std::span<std::byte> out) const {
  const std::uint64_t size = checked(tensor, begin, end, out.size());
  auto piece = first_behind(pieces(tensor), begin);
  for (std::uint64_t at = begin; at < end; ++piece) {
    const std::uint64_t stop = std::min(end, piece->end);
    const std::uint64_t first = piece->begin;
    read_piece(piece_of(tensor, *piece), (at - first) * size, (stop - first) * size,
               out.subspan((at - begin) * size, (stop - at) * size));
    at = stop;
  }
}

void Reader::read_in_parts(const std::string& tensor,
                           const std::function<void(std::span<const std::byte>)>& take) const {
  constexpr std::uint64_t kPartBytes = std::uint64_t{4} << 20;
  const TensorInfo& info = tensors()[number_of(tensor)];
  const std::uint64_t elements = element_count(info);
  const std::uint64_t size = size_of(info.dtype);
  std::vector<std::byte> part;
  for (std::uint64_t at = 0; at < elements; at += part.size() / size) {
    part.resize(std::min(kPartBytes, (elements - at) * size));
    read(tensor, at, at + part.size() / size, part);
    take(part);
  }
}

// [begin, end) are bytes of the piece. Whole blocks are read in place; partial ones at the ends go through a
// scratch block, because only a whole block has a checksum.
void Reader::read_piece(const Piece& piece, std::uint64_t begin, std::uint64_t end,
                        std::span<std::byte> out) const {
  const auto rank = static_cast<std::size_t>(piece.shard.rank);
  const std::filesystem::path path = indexes_.path(rank);
  const InputFile file = indexes_.open(rank);
  const std::uint64_t block = piece.shard.block_bytes;
  // Whole blocks, from byte `at` of the piece on.
  const auto read_blocks = [&](std::uint64_t at, std::span<std::byte> to) {
    in_context(str("tensor '", piece.entry.tensor.name, "' of rank ", piece.shard.rank),
               [&] { fs::read_at(file.fd, piece.entry.file_offset + at, to, Code::kCheckpoint, path); });
    for (std::uint64_t done = 0; done < to.size(); done += block) {
      const auto bytes = to.subspan(done, std::min<std::uint64_t>(block, to.size() - done));
      const std::uint64_t number = piece.entry.first_block + (at + done) / block;
      if (crc32c(bytes) != piece.shard.block_crcs[number])
        throw damaged_block(path, piece.shard.rank, piece.entry, at + done, bytes.size());
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
