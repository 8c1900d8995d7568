#include "data/prepare/source_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/not_copied.h"
#include "base/number.h"
#include "base/str.h"

namespace echelon::data {

/// The raw bytes of a file, through a buffer.
struct SourceStream::Input {
  explicit Input(const SourceFile& source) : file(source), fd(fs::open(source.path, O_RDONLY, Code::kData)) {}

  [[nodiscard]] std::uint64_t at() const { return offset - (buffer.size() - used); }
  [[nodiscard]] std::span<const std::byte> rest() const { return std::span(buffer).subspan(used); }

  /// Makes rest() hold at least one byte; false at the end of the file.
  bool fill() {
    if (used < buffer.size()) return true;
    constexpr std::uint64_t kBufferBytes = std::uint64_t{1} << 18;
    // At most the size at listing: a file that has grown is then noticed by its size, and a file that has
    // shrunk by a short read.
    buffer.resize(std::min(kBufferBytes, file.bytes - offset));
    used = 0;
    fs::read_at(fd, offset, buffer, Code::kData, file.path);
    offset += buffer.size();
    if (buffer.empty()) check_unchanged(file, fd);
    return !buffer.empty();
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(Code::kData, "source '", file.path.string(), "' ", what, " at byte ", at(), " of ",
                file.bytes, ": copy it again");
  }

  const SourceFile file;
  fs::Fd fd;
  std::vector<std::byte> buffer;
  std::size_t used = 0;
  std::uint64_t offset = 0;  // of the file, behind the buffer
};

/// Turns the bytes of an Input into text.
struct SourceStream::Decoder {
  virtual ~Decoder() = default;

  /// Fills `text`, at least one byte of it; 0 at the end.
  std::size_t read(Input& input, std::span<char> text) {
    for (;;) {
      if (!pending_ && !input.fill()) {
        if (inside_) input.refuse("is cut short: its compressed data end too early");
        return 0;
      }
      if (const std::size_t count = step(input, text); count > 0) return count;
    }
  }

 protected:
  /// Decodes some of input.rest(), perhaps to nothing; sets what follows.
  virtual std::size_t step(Input& input, std::span<char> text) = 0;

  bool inside_ = false;   // of one of the streams that may lie in a file, one behind the other
  bool pending_ = false;  // text is left to give, which needs no input
};

namespace {

class PlainDecoder final : public SourceStream::Decoder {
  std::size_t step(SourceStream::Input& input, std::span<char> text) override {
    const auto part = input.rest().first(std::min(input.rest().size(), text.size()));
    std::ranges::transform(part, text.begin(), [](std::byte b) { return static_cast<char>(b); });
    input.used += part.size();
    return part.size();
  }
};

class GzipDecoder final : public SourceStream::Decoder, NotCopied {
 public:
  GzipDecoder() {
    constexpr int kGzip = 16;  // and no zlib streams
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK)
      throw Error(Code::kEnvironment, "the zlib library cannot be used: too little memory");
    inside_ = true;  // an empty file is not a gzip file
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

 private:
  std::size_t step(SourceStream::Input& input, std::span<char> text) override {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    const auto rest = input.rest();
    const std::size_t room = std::min(text.size(), kMost);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest.data()));
    stream_.avail_in = static_cast<uInt>(rest.size());
    stream_.next_out = reinterpret_cast<Bytef*>(text.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    input.used += rest.size() - stream_.avail_in;
    if (result == Z_STREAM_END) {
      // RFC 1952: a gzip file may consist of several members, as `cat a.gz b.gz` or bgzip make them.
      inflateReset(&stream_);
      inside_ = false;
    } else if (result == Z_OK || result == Z_BUF_ERROR) {
      inside_ = true;
    } else {
      input.refuse(
          str("contains data that is not gzip (", stream_.msg != nullptr ? stream_.msg : "damaged", ")"));
    }
    return room - stream_.avail_out;
  }

  z_stream stream_{};
};

constexpr int kLargestWindowLog = 31;  // of zstd --long=31; the library's default is 27

class ZstdDecoder final : public SourceStream::Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (!stream_) throw Error(Code::kEnvironment, "the zstd library cannot be used: too little memory");
    (void)ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog);
    inside_ = true;
  }

 private:
  std::size_t step(SourceStream::Input& input, std::span<char> text) override {
    const auto rest = input.rest();
    ZSTD_inBuffer in{rest.data(), rest.size(), 0};
    ZSTD_outBuffer out{text.data(), text.size(), 0};
    const std::size_t result = ZSTD_decompressStream(stream_.get(), &out, &in);
    input.used += in.pos;
    if (ZSTD_isError(result) != 0)
      input.refuse(str("contains data that is not zstd (", ZSTD_getErrorName(result), ")"));
    // 0: a frame is complete; another one may follow (RFC 8878).
    inside_ = result != 0;
    // If the buffer was full, the decoder may still hold text when all input has been used.
    pending_ = inside_ && out.pos == out.size;
    return out.pos;
  }

  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_;
};

std::unique_ptr<SourceStream::Decoder> decoder_for(Packing packing) {
  if (packing == Packing::kGzip) return std::make_unique<GzipDecoder>();
  if (packing == Packing::kZstd) return std::make_unique<ZstdDecoder>();
  return std::make_unique<PlainDecoder>();
}

}  // namespace

Packing packing_of(const std::filesystem::path& path) {
  const std::string suffix = in_lower_case(path.extension().string());
  if (suffix == ".gz") return Packing::kGzip;
  return suffix == ".zst" ? Packing::kZstd : Packing::kNone;
}

SourceStream::SourceStream(const SourceFile& file, Packing packing)
    : input_(std::make_unique<Input>(file)), decoder_(decoder_for(packing)) {}

SourceStream::~SourceStream() = default;

std::size_t SourceStream::read(std::span<char> text) {
  std::size_t filled = 0;
  while (filled < text.size()) {
    const std::size_t count = decoder_->read(*input_, text.subspan(filled));
    if (count == 0) break;
    filled += count;
  }
  return filled;
}

std::uint64_t SourceStream::position() const {
  return input_->at();
}

void check_unchanged(const SourceFile& file, const fs::Fd& fd) {
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) == file.bytes) return;
  throw Error(Code::kData, "source '", file.path.string(), "' changed while it was read: it had ", file.bytes,
              " bytes and now has ", info.st_size, "; run again");
}

std::string read_source(const SourceFile& file, std::uint64_t most) {
  SourceStream stream(file);
  std::string text;
  for (std::size_t part = std::min<std::uint64_t>(file.bytes + 1, most + 1);;) {
    const std::size_t before = text.size();
    text.resize(before + part);
    text.resize(before + stream.read(std::span(text).subspan(before)));
    if (text.size() > most) {
      throw Error(Code::kData, "source '", file.path.string(), "' holds more than ", most,
                  " bytes, the limit for one document: write one document a line, as JSON lines");
    }
    if (text.size() < before + part) return text;
    part = std::min<std::uint64_t>(text.size(), most + 1 - text.size());
  }
}

}  // namespace echelon::data
