#include "checkpoint/format/shard_index.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/files/bytes.h"
#include "base/str.h"
#include "checkpoint/format/geometry.h"
#include "checkpoint/format/names.h"

namespace echelon::checkpoint {
namespace {

// As in PNG's signature: a first byte that is not ASCII, and line ends that a text-mode copy would change.
constexpr std::array<unsigned char, 8> kMagic{0x89, 'E', 'C', 'K', 'P', '\r', '\n', 0x1A};
constexpr std::size_t kEntryBytes = 128;
constexpr std::size_t kCrcField = 92;

namespace header {
constexpr std::size_t kMajor = 8, kMinor = 10, kFlags = 12, kIndexBytes = 16, kFileBytes = 24, kRank = 32,
                      kRanks = 36, kSaveId = 40, kBlockBytesField = 48, kEntries = 52, kEntryBytesField = 56,
                      kNameBytes = 60, kBlocks = 64, kLayoutCrc = 72;
}  // namespace header

namespace entry {
constexpr std::size_t kNameOffset = 0, kNameLength = 4, kType = 6, kDims = 7, kShape = 8, kBegin = 72,
                      kEnd = 80, kOffset = 88, kBytes = 96, kFirstBlock = 104, kCrc = 112, kFingerprint = 120;
}  // namespace entry

[[noreturn]] void refuse(const std::string& what, const std::string& problem) {
  throw Error(Code::kCheckpoint, what, ": ", problem);
}

struct Sections {
  std::uint64_t entries = 0, entry_bytes = 0, blocks = 0, names = 0, name_bytes = 0;
};

/// Positions of the three tables after the header. All sums stay below 2^64: `count` and `entry_bytes` have
/// 32 bits, the others are compared with the index size first.
Sections find_sections(std::span<const std::byte> block, std::uint64_t index_bytes, const std::string& what) {
  Sections s;
  const std::uint64_t count = get<std::uint32_t>(block, header::kEntries);
  s.entry_bytes = get<std::uint32_t>(block, header::kEntryBytesField);
  const auto blocks = get<std::uint64_t>(block, header::kBlocks);
  s.name_bytes = get<std::uint32_t>(block, header::kNameBytes);
  if (s.entry_bytes < kEntryBytes || s.entry_bytes > 4096)
    refuse(what, str("its index has entries of ", s.entry_bytes, " bytes"));
  if (blocks > index_bytes) refuse(what, str("index claims ", blocks, " checksums"));
  s.entries = kIndexHeaderBytes;
  s.blocks = s.entries + count * s.entry_bytes;
  s.names = s.blocks + blocks * sizeof(std::uint32_t);
  if (s.names + s.name_bytes > index_bytes) {
    refuse(what,
           str("index tables of ", s.names + s.name_bytes, " bytes do not fit its ", index_bytes, " bytes"));
  }
  return s;
}

ShardEntry decode_entry(std::span<const std::byte> block, const Sections& s, std::uint64_t number,
                        const std::string& what) {
  const auto raw = block.subspan(s.entries + number * s.entry_bytes, kEntryBytes);
  const std::uint64_t name_offset = get<std::uint32_t>(raw, entry::kNameOffset);
  const std::uint64_t name_length = get<std::uint16_t>(raw, entry::kNameLength);
  if (name_offset + name_length > s.name_bytes)
    refuse(what, str("index entry ", number, ": its name lies outside the name table"));
  ShardEntry e;
  e.tensor.name = get_text(block, s.names + name_offset, name_length);
  if (const std::string problem = tensor_name_problem(e.tensor.name); !problem.empty()) {
    refuse(what, str("index entry ", number, ": its name ", problem));
  }
  e.tensor.dtype = static_cast<DType>(get<std::uint8_t>(raw, entry::kType));
  const std::size_t dims = get<std::uint8_t>(raw, entry::kDims);
  if (dims > kMaxDims) refuse(what, str("tensor '", e.tensor.name, "' has ", dims, " dimensions"));
  for (std::size_t i = 0; i < dims; ++i)
    e.tensor.shape.push_back(get<std::int64_t>(raw, entry::kShape + 8 * i));
  const auto elements = count_elements(e.tensor.shape, e.tensor.dtype);
  if (!elements) refuse(what, str("tensor '", e.tensor.name, "': element type or shape out of bounds"));
  e.begin = get<std::uint64_t>(raw, entry::kBegin);
  e.end = get<std::uint64_t>(raw, entry::kEnd);
  e.file_offset = get<std::uint64_t>(raw, entry::kOffset);
  e.bytes = get<std::uint64_t>(raw, entry::kBytes);
  e.first_block = get<std::uint64_t>(raw, entry::kFirstBlock);
  e.crc = get<std::uint32_t>(raw, entry::kCrc);
  e.fingerprint = get<std::uint64_t>(raw, entry::kFingerprint);
  if (e.begin >= e.end || e.end > *elements) {
    refuse(what, str("tensor '", e.tensor.name, "': elements ", e.begin, " to ", e.end, " of ", *elements));
  }
  if (e.bytes != (e.end - e.begin) * size_of(e.tensor.dtype)) {
    refuse(what, str("tensor '", e.tensor.name, "': ", e.bytes, " bytes for ", e.end - e.begin, " elements"));
  }
  return e;
}

/// Entries must be in file order, apart from each other and inside the file; their checksums must follow one
/// another.
void check_placement(const ShardIndex& index, const std::string& what) {
  std::set<std::string_view> names;
  std::uint64_t free = index.index_bytes;
  std::uint64_t block = 0;
  for (const ShardEntry& e : index.entries) {
    if (!names.insert(e.tensor.name).second)
      refuse(what, str("tensor '", e.tensor.name, "' is listed twice"));
    if (e.file_offset < free || e.file_offset > index.file_bytes ||
        e.bytes > index.file_bytes - e.file_offset) {
      refuse(what, str("tensor '", e.tensor.name, "': bytes ", e.file_offset, " + ", e.bytes,
                       " overlap other data or the end of the file"));
    }
    if (e.first_block != block)
      refuse(what, str("tensor '", e.tensor.name, "': its checksums are not where they belong"));
    free = e.file_offset + e.bytes;
    block += block_count(e.bytes, index.block_bytes);
  }
  if (block != index.block_crcs.size()) {
    refuse(what, str("index holds ", index.block_crcs.size(), " checksums for ", block, " blocks"));
  }
}

}  // namespace

std::uint64_t block_count(std::uint64_t bytes, std::uint32_t block_bytes) {
  return bytes / block_bytes + (bytes % block_bytes != 0 ? 1 : 0);
}

std::uint64_t index_size(std::span<const ShardEntry> entries, std::uint32_t block_bytes) {
  std::uint64_t bytes = kIndexHeaderBytes;
  for (const ShardEntry& e : entries) {
    bytes += kEntryBytes + e.tensor.name.size() + sizeof(std::uint32_t) * block_count(e.bytes, block_bytes);
  }
  // HDF5 allows user blocks only of a power of two, at least 512 bytes.
  return std::max(kMinIndexBytes, std::bit_ceil(bytes));
}

std::vector<std::byte> encode_index(const ShardIndex& index) {
  std::vector<std::byte> block(index.index_bytes);
  const std::span<std::byte> out(block);
  std::memcpy(out.data(), kMagic.data(), kMagic.size());
  put<std::uint16_t>(out, header::kMajor, kFormatMajor);
  put<std::uint16_t>(out, header::kMinor, static_cast<std::uint16_t>(index.minor));
  put<std::uint64_t>(out, header::kIndexBytes, index.index_bytes);
  put<std::uint64_t>(out, header::kFileBytes, index.file_bytes);
  put<std::uint32_t>(out, header::kRank, static_cast<std::uint32_t>(index.rank));
  put<std::uint32_t>(out, header::kRanks, static_cast<std::uint32_t>(index.ranks));
  put_text(out, header::kSaveId, index.save_id);
  put<std::uint32_t>(out, header::kBlockBytesField, index.block_bytes);
  put<std::uint32_t>(out, header::kEntries, static_cast<std::uint32_t>(index.entries.size()));
  put<std::uint32_t>(out, header::kEntryBytesField, kEntryBytes);
  put<std::uint64_t>(out, header::kBlocks, index.block_crcs.size());
  put<std::uint32_t>(out, header::kLayoutCrc, index.layout_crc);
  std::size_t at = kIndexHeaderBytes;
  const std::size_t blocks = at + index.entries.size() * kEntryBytes;
  const std::size_t names = blocks + index.block_crcs.size() * sizeof(std::uint32_t);
  std::size_t name = 0;
  for (const ShardEntry& e : index.entries) {
    const auto raw = out.subspan(at, kEntryBytes);
    put<std::uint32_t>(raw, entry::kNameOffset, static_cast<std::uint32_t>(name));
    put<std::uint16_t>(raw, entry::kNameLength, static_cast<std::uint16_t>(e.tensor.name.size()));
    put<std::uint8_t>(raw, entry::kType, static_cast<std::uint8_t>(e.tensor.dtype));
    put<std::uint8_t>(raw, entry::kDims, static_cast<std::uint8_t>(e.tensor.shape.size()));
    for (std::size_t i = 0; i < e.tensor.shape.size(); ++i)
      put(raw, entry::kShape + 8 * i, e.tensor.shape[i]);
    put(raw, entry::kBegin, e.begin);
    put(raw, entry::kEnd, e.end);
    put(raw, entry::kOffset, e.file_offset);
    put(raw, entry::kBytes, e.bytes);
    put(raw, entry::kFirstBlock, e.first_block);
    put(raw, entry::kCrc, e.crc);
    put(raw, entry::kFingerprint, e.fingerprint);
    put_text(out, names + name, e.tensor.name);
    name += e.tensor.name.size();
    at += kEntryBytes;
  }
  for (std::size_t i = 0; i < index.block_crcs.size(); ++i) put(out, blocks + 4 * i, index.block_crcs[i]);
  put<std::uint32_t>(out, header::kNameBytes, static_cast<std::uint32_t>(name));
  seal_index(out);
  return block;
}

std::uint32_t blocks_crc(const ShardIndex& index) {
  return crc32c(std::as_bytes(std::span(index.block_crcs)));
}

std::uint32_t index_crc(std::span<const std::byte> block) {
  constexpr std::array<std::byte, sizeof(std::uint32_t)> kZero{};
  return crc32c(block.subspan(kCrcField + kZero.size()), crc32c(kZero, crc32c(block.first(kCrcField))));
}

void seal_index(std::span<std::byte> block) {
  put(block, kCrcField, index_crc(block));
}

IndexHead decode_index_head(std::span<const std::byte> head, const std::string& what) {
  if (head.size() < kIndexHeaderBytes || std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0) {
    refuse(what, "is not a checkpoint shard (its first bytes are not those of one)");
  }
  const int major = get<std::uint16_t>(head, header::kMajor);
  const int minor = get<std::uint16_t>(head, header::kMinor);
  const auto flags = get<std::uint32_t>(head, header::kFlags);
  if (major != kFormatMajor || flags != 0) {
    refuse(what,
           str("has checkpoint format ", major, '.', minor,
               flags != 0 ? " with features this program does not know" : "", "; this program reads format ",
               kFormatMajor, ".x: use the version that wrote it, or a newer one"));
  }
  const IndexHead found{get<std::uint64_t>(head, header::kIndexBytes),
                        get<std::uint64_t>(head, header::kFileBytes)};
  if (found.index_bytes < kMinIndexBytes || found.index_bytes > kMaxIndexBytes ||
      !std::has_single_bit(found.index_bytes) || found.file_bytes < found.index_bytes) {
    refuse(what, str("index of ", found.index_bytes, " bytes in a file of ", found.file_bytes, " bytes"));
  }
  return found;
}

namespace {

/// Decodes the header's fields about the shard.
ShardIndex decode_header(std::span<const std::byte> block, const IndexHead& head, const std::string& what) {
  ShardIndex index{.minor = get<std::uint16_t>(block, header::kMinor),
                   .index_bytes = head.index_bytes,
                   .file_bytes = head.file_bytes};
  const auto rank = get<std::uint32_t>(block, header::kRank);
  const auto ranks = get<std::uint32_t>(block, header::kRanks);
  if (ranks == 0 || ranks > static_cast<std::uint32_t>(kMaxRanks) || rank >= ranks) {
    refuse(what, str("rank ", rank, " of ", ranks));
  }
  index.rank = static_cast<int>(rank);
  index.ranks = static_cast<int>(ranks);
  index.save_id = get_text(block, header::kSaveId, 8);
  if (!is_save_id(index.save_id)) refuse(what, "save id is not eight hex digits");
  index.block_bytes = get<std::uint32_t>(block, header::kBlockBytesField);
  if (index.block_bytes < 4096 || index.block_bytes > (64U << 20) || index.block_bytes % 8 != 0) {
    refuse(what, str("checksum blocks of ", index.block_bytes, " bytes"));
  }
  index.layout_crc = get<std::uint32_t>(block, header::kLayoutCrc);
  return index;
}

void decode_entries(std::span<const std::byte> block, const Sections& s, ShardIndex& index,
                    const std::string& what) {
  const std::uint64_t count = (s.blocks - s.entries) / s.entry_bytes;
  for (std::uint64_t i = 0; i < count; ++i) index.entries.push_back(decode_entry(block, s, i, what));
}

}  // namespace

ShardIndex decode_index(std::span<const std::byte> block, const std::string& what) {
  const IndexHead head = decode_index_head(block.first(std::min(block.size(), kIndexHeaderBytes)), what);
  if (head.index_bytes != block.size())
    refuse(what, str("index of ", head.index_bytes, " bytes read as ", block.size()));
  // The checksum comes first: of a damaged index the user should read "damaged", not the first odd value.
  if (get<std::uint32_t>(block, kCrcField) != index_crc(block)) {
    refuse(what, str("index (bytes 0 to ", block.size(), ") is damaged: its checksum differs"));
  }
  ShardIndex index = decode_header(block, head, what);
  const Sections s = find_sections(block, block.size(), what);
  decode_entries(block, s, index, what);
  index.block_crcs.resize((s.names - s.blocks) / sizeof(std::uint32_t));
  if (!index.block_crcs.empty())
    std::memcpy(index.block_crcs.data(), block.data() + s.blocks, s.names - s.blocks);
  check_placement(index, what);
  return index;
}

IndexTable find_table(std::span<const std::byte> header, const std::string& what) {
  const IndexHead head = decode_index_head(header, what);
  const Sections s = find_sections(header, head.index_bytes, what);
  return {.entries_end = s.blocks, .names = s.names, .names_end = s.names + s.name_bytes};
}

ShardIndex decode_table(std::span<const std::byte> parts, const std::string& what) {
  const IndexHead head = decode_index_head(parts.first(std::min(parts.size(), kIndexHeaderBytes)), what);
  ShardIndex index = decode_header(parts, head, what);
  Sections s = find_sections(parts, head.index_bytes, what);
  s.names = s.blocks;
  if (s.names + s.name_bytes != parts.size())
    refuse(what, str("index tables of ", s.names + s.name_bytes, " bytes read as ", parts.size()));
  decode_entries(parts, s, index, what);
  return index;
}

}  // namespace echelon::checkpoint
