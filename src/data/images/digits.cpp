#include "data/images/digits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/own_file.h"
#include "base/str.h"
#include "data/images/idx_file.h"
#include "data/prepare/gzip_input.h"
#include "image/image_transform.h"

namespace echelon::data {
namespace {

constexpr std::int64_t kSide = 8;
constexpr std::int64_t kScaledSide = 24;
constexpr std::int64_t kBorder = 2;
constexpr std::int64_t kFinalSide = kScaledSide + 2 * kBorder;
constexpr int kHighestValue = 16;
constexpr int kHighestLabel = 9;
constexpr std::size_t kFields = kSide * kSide + 1;
constexpr std::size_t kTestEvery = 6;
constexpr std::size_t kMostBytes = 16'000'000;

struct Digit {
  Image image;
  std::uint8_t label = 0;
};

/// The images and labels of one part, as they go into idx files.
struct Part {
  IdxFile images{{0, kFinalSide, kFinalSide}, {}};
  IdxFile labels{{0}, {}};

  void add(const Digit& digit) {
    const Image scaled = resize(digit.image, kScaledSide, kScaledSide);
    const std::size_t begin = images.values.size();
    images.values.resize(begin + kFinalSide * kFinalSide);
    for (std::int64_t y = 0; y < kScaledSide; ++y) {
      const std::int64_t to = (y + kBorder) * kFinalSide + kBorder;
      std::copy_n(scaled.row(y), kScaledSide, images.values.begin() + static_cast<std::int64_t>(begin) + to);
    }
    labels.values.push_back(digit.label);
    images.dimensions[0] = labels.dimensions[0] = static_cast<std::int64_t>(labels.values.size());
  }
};

std::string read_text(const std::filesystem::path& source) {
  GzipInput input(source);
  std::string text(kMostBytes, '\0');
  text.resize(input.read(std::as_writable_bytes(std::span(text))));
  if (text.size() < kMostBytes) return text;
  throw Error(Code::kData, str("'", source.string(), "' is larger than scikit-learn's digits.csv can be"));
}

/// The integers of "0,12,5"; empty when something else is in it.
std::vector<int> read_numbers(std::string_view line) {
  std::vector<int> numbers;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (numbers.size() <= kFields) {
    int value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) return {};
    numbers.push_back(value);
    if (after == end) return numbers;
    if (*after != ',') return {};
    at = after + 1;
  }
  return {};
}

Digit read_digit(std::string_view line, std::size_t number, const std::filesystem::path& source) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Code::kData, str("'", source.string(), "' line ", number, " ", why,
                                 ": expected scikit-learn's sklearn/datasets/data/digits.csv.gz"));
  };
  const std::vector<int> numbers = read_numbers(line);
  if (numbers.size() != kFields) refuse(str("is not ", kFields, " integers separated by commas"));
  Digit digit{{kSide, kSide, 1, {}}, static_cast<std::uint8_t>(numbers.back() & 255)};
  if (numbers.back() > kHighestLabel) refuse(str("has label ", numbers.back(), ", expected 0 to 9"));
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    if (numbers[i] > kHighestValue) refuse(str("has value ", numbers[i], ", expected 0 to ", kHighestValue));
    digit.image.pixels.push_back(
        static_cast<std::uint8_t>((numbers[i] * 255 + kHighestValue / 2) / kHighestValue));
  }
  return digit;
}

/// Refuses to replace a file with other content: the real MNIST has the same file names.
void publish(const std::filesystem::path& path, const IdxFile& content, bool force) {
  std::error_code ignored;
  if (!force && std::filesystem::exists(path, ignored)) {
    IdxFile present;
    try {
      present = read_idx(path, content.dimensions.size());
    } catch (const Error&) {
      present = {};  // unreadable or of another kind: other content
    }
    if (present.dimensions == content.dimensions && present.values == content.values) return;
    throw Error(Code::kData, str("'", path.string(),
                                 "' already exists with other content: choose "
                                 "another --output, or replace it with --force"));
  }
  publish_idx(path, content);
}

}  // namespace

DigitsReport prepare_digits(const DigitsOptions& options) {
  const auto& [source, output, force, allow_foreign_folder] = options;
  const std::string text = read_text(source);
  std::array<Part, 2> parts;  // train, test
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    parts[number % kTestEvery == 0 ? 1 : 0].add(read_digit(line, number, source));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (parts[1].labels.values.empty()) {
    throw Error(Code::kData, str("'", source.string(), "' has fewer than ", kTestEvery,
                                 " lines: expected "
                                 "scikit-learn's sklearn/datasets/data/digits.csv.gz"));
  }
  fs::make_directories(output, Code::kData);
  if (!allow_foreign_folder) fs::require_own_folder(output, Code::kData, "add --allow-foreign-folder");
  for (const std::size_t i : {0, 1}) {
    const std::string name = i == 0 ? "train" : "test";
    publish(output / (name + "-labels-idx1-ubyte"), parts[i].labels, force);
    publish(output / (name + "-images-idx3-ubyte"), parts[i].images, force);
  }
  return {parts[0].images.dimensions[0], parts[1].images.dimensions[0]};
}

}  // namespace echelon::data
