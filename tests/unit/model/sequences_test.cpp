#include "model/sequences.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace echelon {
namespace {

TEST(SequenceLayout, SaysWhereTokensAre) {
  const Sequences sequences = make_sequences({2, 1, 3});
  EXPECT_TRUE(sequences->positions(at::kCPU).equal(at::tensor({0, 1, 0, 0, 1, 2}, at::kLong)));
  EXPECT_TRUE(sequences->sequence_numbers(at::kCPU).equal(at::tensor({0, 0, 1, 2, 2, 2}, at::kLong)));
  EXPECT_TRUE(sequences->borders(at::kCPU).equal(at::tensor({0, 2, 3, 6}, at::kInt)));
}

TEST(SequenceLayout, LaysThemOutAsARectangle) {
  const Sequences sequences = make_sequences({2, 1, 3});
  const at::Tensor tokens = sequences->tokens_of_rectangle(at::kCPU);
  EXPECT_TRUE(tokens.equal(at::tensor({0, 1, 1, 2, 2, 2, 3, 4, 5}, at::kLong)));
  const at::Tensor places = sequences->places_in_rectangle(at::kCPU);
  EXPECT_TRUE(places.equal(at::tensor({0, 1, 3, 6, 7, 8}, at::kLong)));
  EXPECT_TRUE(tokens.index_select(0, places).equal(at::arange(6)));
  EXPECT_TRUE(sequences->padding_of_rectangle(at::kCPU).equal(
      at::tensor({0, 0, 1, 0, 1, 1, 0, 0, 0}, at::kInt).to(at::kBool).view({3, 3})));
}

// What every layer asks for is made and copied to the device once a batch.
TEST(SequenceLayout, MakesEachTensorOnce) {
  const Sequences sequences = make_sequences({2, 1, 3});
  EXPECT_TRUE(sequences->positions(at::kCPU).is_same(sequences->positions(at::kCPU)));
  EXPECT_TRUE(sequences->sequence_numbers(at::kCPU).is_same(sequences->sequence_numbers(at::kCPU)));
  EXPECT_TRUE(sequences->borders(at::kCPU).is_same(sequences->borders(at::kCPU)));
  const at::Tensor table = at::arange(8, at::kFloat).view({4, 2});
  const at::Tensor rows = sequences->rows_at_positions(table);
  EXPECT_TRUE(rows.equal(table.index_select(0, sequences->positions(at::kCPU))));
  EXPECT_TRUE(rows.is_same(sequences->rows_at_positions(table)));
  const at::Tensor other = table + 1;
  EXPECT_TRUE(sequences->rows_at_positions(other).equal(rows + 1));
}

}  // namespace
}  // namespace echelon
