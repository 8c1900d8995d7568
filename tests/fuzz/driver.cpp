// Runs LLVMFuzzerTestOneInput on mutated seeds, the same ones every time: a stand-in for libFuzzer that any
// compiler builds. Usage: fuzz_NAME [--runs N] [--random SEED] [FILE-OR-FOLDER with seeds]... A single file
// and --runs 0 replays one input. An input that ends the process is left behind as crash-input.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "support/long_form.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// A fuzzer may bring seeds that are easier made than stored.
[[gnu::weak]] std::vector<std::string> fuzz_seeds();

namespace {

constexpr unsigned kSecondsPerInput = 20;
constexpr std::size_t kMaxInput = 1 << 20;

std::string g_input;  // for the signal handler

void save_input(int signal) {
  const int fd = ::open("crash-input", O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd >= 0) (void)!::write(fd, g_input.data(), g_input.size());
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void run(std::string input) {
  g_input = std::move(input);
  ::alarm(kSecondsPerInput);
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(g_input.data()), g_input.size());
}

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, std::uint64_t random) : seeds_(std::move(seeds)), random_(random) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t times = 1 + below(4); times > 0; --times) change(text);
    if (text.size() > kMaxInput) text.resize(kMaxInput);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void change(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(9)) {
      case 0: return flip(text, at);
      case 1: return number(text, at);
      case 2: text.erase(at, 1 + below(16)); return;
      case 3: text.insert(at, 1 + below(16), static_cast<char>(random_())); return;
      case 4: text.insert(at, text.substr(below(text.size()), below(64))); return;
      case 5: text.resize(at); return;
      case 6: text = text.substr(0, at) + tail(seeds_[below(seeds_.size())]); return;
      case 7: return digits(text, at);
      default:
        if (!text.empty()) text[at] = static_cast<char>(random_());
    }
  }
  static void flip(std::string& text, std::size_t at, unsigned bit) {
    text[at] = static_cast<char>(text[at] ^ (1U << bit));
  }
  void flip(std::string& text, std::size_t at) {
    if (!text.empty()) flip(text, at, static_cast<unsigned>(below(8)));
  }
  /// A binary number at the edge of something.
  void number(std::string& text, std::size_t at) {
    static constexpr std::array<std::uint64_t, 12> kEdges{0,
                                                          1,
                                                          2,
                                                          0x7F,
                                                          0xFF,
                                                          0xFFFF,
                                                          0x7FFFFFFF,
                                                          0xFFFFFFFF,
                                                          0x100000000,
                                                          0x7FFFFFFFFFFFFFFF,
                                                          0xFFFFFFFFFFFFFFFF,
                                                          0x8000000000000000};
    const std::uint64_t value = kEdges[below(kEdges.size())] + below(3);
    at = at / 4 * 4;
    const std::size_t width = std::size_t{1} << below(4);
    if (at + width <= text.size()) std::memcpy(text.data() + at, &value, width);
  }
  /// The next written number becomes another one.
  void digits(std::string& text, std::size_t at) {
    static constexpr std::array<const char*, 8> kNumbers{
        "0", "-1", "18446744073709551615", "9223372036854775808", "1e400", "0.5", "1099511627776", "00"};
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, kNumbers[below(kNumbers.size())]);
  }
  std::string tail(const std::string& text) { return text.substr(below(text.size())); }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_;
};

void add_seeds(const std::filesystem::path& path, std::vector<std::string>& seeds) {
  std::vector<std::filesystem::path> files{path};
  if (std::filesystem::is_directory(path)) {
    files.clear();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  }
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream) {
      std::fprintf(stderr, "cannot read seed '%s'\n", file.c_str());
      std::exit(2);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 10000;
  std::uint64_t random = 1;
  std::vector<std::string> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--random" && i + 1 < argc) {
      random = std::strtoull(argv[++i], nullptr, 10);
    } else {
      add_seeds(argument, seeds);
    }
  }
  if (fuzz_seeds != nullptr) {
    for (std::string& seed : fuzz_seeds()) seeds.push_back(std::move(seed));
  }
  if (seeds.empty()) seeds.emplace_back();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    std::signal(signal, save_input);
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds, random);
  if (echelon::test::long_form()) runs *= 3;
  for (std::uint64_t i = 0; i < runs; ++i) run(mutator.next());
  std::printf("%zu seeds and %llu mutated inputs\n", seeds.size(), static_cast<unsigned long long>(runs));
  return 0;
}
