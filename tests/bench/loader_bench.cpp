// loader_bench write FILE TOKENS VOCABULARY                 a token file of random documents
// loader_bench read FILE PACKING SEQ_LEN BATCH BATCHES      reads shuffled batches as a rank does, on the
//                                                           calling thread alone: prints tokens and seconds
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "data/batch_stream.h"
#include "data/tokens/token_file_writer.h"

namespace echelon {
namespace {

void write(const char* path, std::uint64_t tokens, std::uint32_t vocabulary) {
  TokenFileWriter writer(path, {.vocab_size = vocabulary, .flags = kDocumentsEndWithEos});
  std::vector<std::int32_t> ids;
  for (std::uint64_t document = 0; writer.token_count() < tokens; ++document) {
    const auto size = 20 + philox4x32(1, document, 0)[0] % 1500;
    ids.clear();
    for (std::uint64_t at = 0; at < size; ++at)
      ids.push_back(static_cast<std::int32_t>(1 + philox4x32(2, at, document)[0] % (vocabulary - 1)));
    ids.back() = 0;
    writer.add_document(ids);
  }
  (void)writer.finish();
}

void read(const DataOptions& options, std::int64_t rows, std::int64_t batches) {
  const auto loader = make_loader(options, 1 << 16, 3);
  BatchStream stream(*loader, {.first = 0, .samples = rows, .stride = rows}, 0, 1);
  std::int64_t tokens = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < batches; ++i) tokens += static_cast<std::int64_t>(stream.next().ids.size());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::cout << tokens << ' ' << seconds.count() << '\n';
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "write") {
    write(arguments[1].c_str(), std::stoull(arguments[2]),
          static_cast<std::uint32_t>(std::stoul(arguments[3])));
    return 0;
  }
  if (arguments.size() != 6 || arguments[0] != "read") return 2;
  DataOptions options;
  options.path = arguments[1];
  options.packing = choice_of<Packing>(arguments[2]).value();
  options.seq_len = std::stoll(arguments[3]);
  read(options, std::stoll(arguments[4]), std::stoll(arguments[5]));
  return 0;
}

}  // namespace
}  // namespace echelon

int main(int argc, char** argv) {
  try {
    return echelon::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
