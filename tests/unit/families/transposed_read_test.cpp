#include "families/transposed_read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "families/safetensors.h"
#include "support/temp_dir.h"

namespace echelon::families {
namespace {

/// A file with the one matrix "m", filled with its element numbers.
std::vector<std::byte> write_matrix(const std::filesystem::path& file, DType type, std::uint64_t rows,
                                    std::uint64_t columns) {
  const std::size_t size = size_of(type);
  std::vector<std::byte> bytes(rows * columns * size);
  for (std::uint64_t i = 0; i < rows * columns; ++i) std::memcpy(bytes.data() + i * size, &i, size);
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  std::ofstream out(file, std::ios::binary);
  out << lay_out_safetensors({{"m", type, shape, bytes.size()}}).head;
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void expect_transpose(DType type, std::uint64_t rows, std::uint64_t columns, std::uint64_t ahead) {
  const test::TempDir dir;
  const std::size_t size = size_of(type);
  const auto bytes = write_matrix(dir.path() / "m.safetensors", type, rows, columns);
  std::vector<std::byte> expected(bytes.size());
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < columns; ++column)
      std::memcpy(expected.data() + (column * rows + row) * size,
                  bytes.data() + (row * columns + column) * size, size);
  }
  const WeightSource source(dir.path() / "m.safetensors");
  const SourceTensor& matrix = source.tensors().at("m");
  TransposedRead read(source, ahead);
  std::mt19937_64 random(rows * 1000 + columns);
  std::vector<std::byte> got(bytes.size());
  for (int round = 0; round < 5; ++round) {  // cut into stretches anywhere
    const std::uint64_t longest = round == 0 ? rows * columns : 1 + random() % (rows * columns);
    for (std::uint64_t at = 0; at < rows * columns;) {
      const std::uint64_t count =
          std::min(rows * columns - at, round == 0 ? longest : 1 + random() % longest);
      read(matrix, at, std::span(got).subspan(at * size, count * size));
      at += count;
    }
    EXPECT_TRUE(got == expected) << size << " bytes, " << rows << " x " << columns << " round " << round;
    std::fill(got.begin(), got.end(), std::byte{0xEE});
  }
}

// With little read ahead a stretch lies within a column, ends in the middle of one, or skips most of each
// row.
TEST(TransposedRead, GivesEveryStretchOfTheTranspose) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1, 1}, {1, 300}, {300, 1}, {7, 5}, {64, 64}, {3, 200}, {200, 3}, {129, 257}}) {
    for (const std::uint64_t ahead : {8, 100, 1000, 50'000}) {
      expect_transpose(DType::kF32, rows, columns, ahead);
      expect_transpose(DType::kBF16, rows, columns, ahead);
      expect_transpose(DType::kF64, rows, columns, ahead);
    }
  }
}

TEST(TransposedRead, OfAMatrixBeyondOneBlockIsTheSame) {
  expect_transpose(DType::kF32, 700, 900, 15 << 20);
}

}  // namespace
}  // namespace echelon::families
