#include "train/device_reader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace echelon {
namespace {

// On the CPU, where the copies are the same and nothing has to be waited for.
TEST(ReadWindows, GiveEveryByteOfEveryTensorInTurn) {
  ReadWindows windows(64);
  for (const std::int64_t elements : {1, 15, 16, 17, 100, 1000}) {
    const at::Tensor values = at::arange(elements, at::kFloat) + static_cast<double>(elements);
    const std::size_t bytes = values.nbytes();
    std::vector<std::byte> read(bytes);
    std::size_t step = 1;
    for (std::size_t at = 0; at < bytes; at += step, step = step * 3 % 101 + 1) {
      const std::size_t count = std::min(step, bytes - at);
      windows.read(values, at, std::span(read).subspan(at, count));
    }
    EXPECT_EQ(std::memcmp(read.data(), values.const_data_ptr(), bytes), 0) << elements;
  }
}

TEST(ReadWindows, ReadATensorAnewThatHasChanged) {
  ReadWindows windows(16);
  for (const double value : {1.0, 2.0}) {
    const at::Tensor values = at::full({32}, value, at::kFloat);
    std::vector<float> read(32);
    windows.read(values.narrow(0, 8, 24), 0, std::as_writable_bytes(std::span(read).first(24)));
    EXPECT_EQ(read[0], static_cast<float>(value));
    EXPECT_EQ(read[23], static_cast<float>(value));
  }
}

}  // namespace
}  // namespace echelon
