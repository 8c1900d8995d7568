#include "model/ops/products/compiled_products.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace echelon::ops {
namespace {

using kernels::Bf16Products;

TEST(CompiledProducts, AreKeptForALayerAndNoMoreThanAnyway) {
  const auto tiled = [](std::int64_t rows, std::int64_t length) {
    return products_worth_keeping(rows, length, Bf16Products::kAmx);
  };
  EXPECT_EQ(tiled(2, 64), 128);
  EXPECT_EQ(tiled(2, 512), 256);
  EXPECT_EQ(tiled(8, 512), 512);
  EXPECT_EQ(tiled(1, 100'000), 1024);
  EXPECT_EQ(tiled(1'000'000'000'000, 1'000'000'000'000), 1024);
  EXPECT_EQ(tiled(0, 0), 128);
  for (const Bf16Products products : {Bf16Products::kNone, Bf16Products::kAvx512}) {
    EXPECT_EQ(products_worth_keeping(2, 64, products), 1024);
  }
}

TEST(CompiledProducts, WhatTheUserSaysCounts) {
  setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7", 1);
  unsetenv("LRU_CACHE_CAPACITY");
  keep_compiled_products(300);
  EXPECT_STREQ(std::getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY"), "7");
  EXPECT_STREQ(std::getenv("LRU_CACHE_CAPACITY"), "300");
}

}  // namespace
}  // namespace echelon::ops
