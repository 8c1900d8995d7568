#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/str.h"
#include "data/ordered_pipeline.h"
#include "data/prepare/corpus.h"
#include "data/prepare/records.h"
#include "data/prepare/source_stream.h"
#include "data/prepare/text_format.h"
#include "text/tokenizer_training.h"

namespace echelon::data {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr std::uint64_t kBetweenParts = std::uint64_t{1} << 40;  // more than a record has lines

/// Characters with a meaning of their own inside the trainer: U+2581, U+2585, NUL. Tokens for them come from
/// bytes.
bool is_reserved(std::string_view line) {
  return line.find("\xE2\x96\x81") != std::string_view::npos ||
         line.find("\xE2\x96\x85") != std::string_view::npos || line.find('\0') != std::string_view::npos;
}

/// Takes a part of at most kLongestLine bytes off `line`, cut between characters.
std::string_view take_part(std::string_view& line) {
  std::size_t length = std::min(line.size(), kLongestLine);
  while (length < line.size() && (static_cast<unsigned char>(line[length]) & 0xC0U) == 0x80) --length;
  const std::string_view part = line.substr(0, length);
  line.remove_prefix(length);
  return part;
}

class LineSampler {
 public:
  LineSampler(std::uint64_t seed, double share)
      : key_(stream_key(seed, "tokenizer sample")),
        limit_(static_cast<std::uint64_t>(std::min(share, 1.0) * 0x1p32)) {}

  void pick(std::uint64_t record, std::string_view text, std::vector<std::string>& lines) const {
    for (std::uint64_t number = 0; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      // Each part has a draw of its own: a whole text may be one line.
      for (std::uint64_t draw = number; !line.empty(); draw += kBetweenParts) {
        const std::string_view part = take_part(line);
        if (philox4x32(key_, record, draw)[0] < limit_ && !is_reserved(part)) lines.emplace_back(part);
      }
    }
  }

 private:
  std::uint64_t key_;
  std::uint64_t limit_;  // of a 32-bit word
};

struct Sampled {
  TextSample sample;
  std::uint64_t bytes = 0;
};

}  // namespace

void TextSample::add(TextSample more) {
  std::move(more.lines.begin(), more.lines.end(), std::back_inserter(lines));
  if (bad_records == 0) first_bad = std::move(more.first_bad);
  bad_records += more.bad_records;
}

TextSample sample_lines(const std::vector<SourceFile>& files, const PrepareOptions& options,
                        const ProgressCallback& progress) {
  PrepareProgress now{.stage = "reading a sample"};
  double total = 1;
  for (const auto& file : files) {
    constexpr double kUsualCompression = 4;
    now.bytes_total += file.bytes;
    const bool packed = packing_of(file.path) != Packing::kNone || is_parquet(file, options);
    total += static_cast<double>(file.bytes) * (packed ? kUsualCompression : 1);
  }
  const LineSampler sampler(options.seed, static_cast<double>(options.train_bytes) / total);
  using Pipeline = OrderedPipeline<RecordBatch, Sampled>;
  Pipeline pipeline(options.threads, [&]() -> Pipeline::Work {
    return [&](const RecordBatch& batch) {
      Sampled sampled{.sample = {}, .bytes = batch.bytes};
      for (const Record& record : batch.records) {
        const Document document = open_document(record, options);
        if (document.fault.empty()) {
          sampler.pick(record.index, document.text + '\n' + document.target, sampled.sample.lines);
          continue;
        }
        std::string bad = str(place_of(record), ": ", document.fault);
        if (options.on_bad_record == BadRecords::kStop) throw bad_record_error(bad);
        sampled.sample.add({.lines = {}, .bad_records = 1, .first_bad = std::move(bad)});
      }
      return sampled;
    };
  });
  RecordReader reader(files, options);
  TextSample all;
  pipeline.run([&] { return reader.next(); },
               [&](Sampled sampled) {
                 all.add(std::move(sampled.sample));
                 now.bytes_done += sampled.bytes;
                 progress(now);
               });
  return all;
}

std::string train_on_sample(const TextSample& sample, const PrepareOptions& options,
                            const ProgressCallback& progress) {
  if (sample.lines.empty()) {
    throw Error(Code::kData, "the sources hold no text to train a tokenizer on",
                sample.bad_records > 0
                    ? str(" (", sample.bad_records, " unusable records, first ", sample.first_bad, ")")
                    : "",
                ": name sources that do");
  }
  progress({.stage = "training the tokenizer", .bytes_done = 0, .bytes_total = 0, .tokens = 0});
  return train_tokenizer(sample.lines, options.train_vocab_size);
}

}  // namespace echelon::data
