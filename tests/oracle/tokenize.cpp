// tokenize TOKENIZER: reads texts (u32 size, bytes) from standard input and writes of each its ids (u32
// count, i32 each) and their decoding (u32 size, bytes). Before them: i32 BOS, EOS, vocab_size.
// tokenize --json MODEL: the tokenizer.json of a sentencepiece model.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/sentencepiece/sentencepiece_json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_digest.h"

namespace {

void put(const void* bytes, std::size_t size) {
  std::cout.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

template <class Number>
void put(Number value) {
  put(&value, sizeof(value));
}

int run(const char* path) {
  const auto tokenizer = echelon::Tokenizer::load(path);
  put(tokenizer->bos_id());
  put(tokenizer->eos_id());
  put(static_cast<std::int32_t>(tokenizer->vocab_size()));
  const auto encoder = tokenizer->make_encoder();
  std::uint32_t size = 0;
  while (std::cin.read(reinterpret_cast<char*>(&size), sizeof(size))) {
    std::string text(size, '\0');
    std::cin.read(text.data(), size);
    std::vector<std::int32_t> ids;
    encoder->encode(text, ids);
    put(static_cast<std::uint32_t>(ids.size()));
    put(ids.data(), ids.size() * sizeof(ids[0]));
    const std::string decoded = tokenizer->decode(ids);
    put(static_cast<std::uint32_t>(decoded.size()));
    put(decoded.data(), decoded.size());
  }
  std::cout.flush();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  try {
    if (argc == 3) {
      std::cout << echelon::data::tokenizer_json_of(echelon::read_tokenizer_model(argv[2]), false);
      return 0;
    }
    return run(argv[1]);
  } catch (const echelon::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
