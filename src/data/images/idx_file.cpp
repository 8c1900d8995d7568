#include "data/images/idx_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/str.h"
#include "data/prepare/source_stream.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 30;
constexpr unsigned kUnsignedByte = 0x08;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw Error(Code::kData, "idx file '", path.string(), "' ", why);
}

/// The file as it is now, and its packing: by its first bytes, not its name.
std::pair<SourceFile, Packing> look_at(const std::filesystem::path& path) {
  const fs::Fd fd = fs::open(path, O_RDONLY | O_NONBLOCK, Code::kData);  // opening a FIFO must not block
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw fs::system_error(Code::kData, "stat", path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(Code::kData, "'", path.string(), "' is not a regular file");
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  std::array<std::byte, 2> first{};
  if (bytes >= first.size()) fs::read_at(fd, 0, first, Code::kData, path);
  const bool gzip = first == std::array{std::byte{0x1F}, std::byte{0x8B}};
  return {{.path = path, .bytes = bytes}, gzip ? Packing::kGzip : Packing::kNone};
}

std::uint32_t read_word(SourceStream& input, const std::filesystem::path& path) {
  std::array<char, 4> bytes{};
  if (input.read(bytes) < bytes.size()) refuse(path, "ends inside its header: it was cut short");
  std::uint32_t word = 0;
  for (const char byte : bytes) word = word << 8 | static_cast<std::uint8_t>(byte);
  return word;
}

/// Its bytes, the highest first.
std::string hex(std::uint32_t word) {
  std::string text = hex_digits(word, 8);
  for (const std::size_t at : {6U, 4U, 2U}) text.insert(at, 1, ' ');
  return text;
}

void check_magic(const std::filesystem::path& path, std::uint32_t magic, std::size_t dimensions) {
  const std::uint32_t expected = kUnsignedByte << 8 | static_cast<std::uint32_t>(dimensions);
  if (magic == expected) return;
  if (magic >> 16 != 0) {
    refuse(path,
           str("is not an idx file: it starts with the bytes ", hex(magic), ", expected ", hex(expected)));
  }
  if ((magic >> 8 & 255U) != kUnsignedByte) {
    refuse(path, str("holds numbers that are not unsigned bytes: it starts with ", hex(magic), ", expected ",
                     hex(expected)));
  }
  refuse(path, str("has ", magic & 255U, " dimensions, expected ", dimensions,
                   ": images have 3 (data.path), labels 1 (data.labels)"));
}

/// Elements of the file, after checks against what it can hold.
std::uint64_t count_of(const std::filesystem::path& path, const std::vector<std::int64_t>& dimensions,
                       std::uint64_t most) {
  std::uint64_t count = 1;
  for (const std::int64_t size : dimensions) {
    if (size == 0) refuse(path, "has a dimension of size 0: it holds nothing");
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(size), &count) || count > kMostBytes) {
      refuse(path, str("claims more than ", human_bytes(kMostBytes), ", which is not accepted"));
    }
  }
  if (count > most) refuse(path, str("is cut short: its header states ", count, " more bytes"));
  return count;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  const auto [source, packing] = look_at(path);
  SourceStream input(source, packing);
  check_magic(path, read_word(input, path), dimensions);
  IdxFile file;
  for (std::size_t i = 0; i < dimensions; ++i) file.dimensions.push_back(read_word(input, path));
  const std::uint64_t header = 4 * (1 + dimensions);
  // Deflate expands 1 byte to at most 1032 (zlib's technical notes).
  const std::uint64_t most = source.bytes * (packing == Packing::kGzip ? 1032 : 1);
  file.values.resize(count_of(path, file.dimensions, most > header ? most - header : 0));
  const std::size_t got = input.read({reinterpret_cast<char*>(file.values.data()), file.values.size()});
  if (got < file.values.size()) {
    refuse(path, str("is cut short: ", got, " of ", file.values.size(), " bytes after its header"));
  }
  char extra = 0;
  if (input.read(std::span(&extra, 1)) > 0) refuse(path, "is longer than its header says");
  return file;
}

std::filesystem::path find_labels(const std::filesystem::path& images) {
  std::string name = images.filename().string();
  const auto replace_last = [&name](std::string_view from, std::string_view to) {
    const std::size_t at = name.rfind(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
    return at != std::string::npos;
  };
  if (!replace_last("images", "labels")) {
    throw Error(Code::kData, "'", images.string(),
                "' has no 'images' in its name, so its labels file cannot be found: name it in data.labels");
  }
  (void)replace_last("idx3", "idx1");
  const bool zipped = name.ends_with(".gz");
  const std::string other = zipped ? name.substr(0, name.size() - 3) : name + ".gz";
  for (const std::string& candidate : {name, other}) {
    std::error_code ignored;
    const auto path = images.parent_path() / candidate;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw Error(Code::kData, "no labels beside '", images.string(), "': looked for '", name, "' and '", other,
              "'; name the file in data.labels");
}

}  // namespace echelon::data
