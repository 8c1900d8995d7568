#include "model/ops/compiled_products.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace echelon::ops {
namespace {

TEST(CompiledProducts, AreKeptForALayerAndNoMoreThanAnyway) {
  EXPECT_EQ(products_worth_keeping(2, 64), 128);
  EXPECT_EQ(products_worth_keeping(2, 512), 256);
  EXPECT_EQ(products_worth_keeping(8, 512), 512);
  EXPECT_EQ(products_worth_keeping(1, 100'000), 1024);
  EXPECT_EQ(products_worth_keeping(1'000'000'000'000, 1'000'000'000'000), 1024);
  EXPECT_EQ(products_worth_keeping(0, 0), 128);
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
