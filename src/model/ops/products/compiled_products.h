#pragma once
#include <cstdint>

#include "model/kernels/bf16_products.h"

/// oneDNN compiles code for every shape of a product and caches 1,024 shapes, of close to a megabyte each on
/// processors with AMX. With sequences of different lengths there are always new shapes.
namespace echelon::ops {

/// Returns how many shapes are worth caching. With AMX these are the shapes of one layer, 128 to 1,024: the
/// next layer needs them again, and small products, which have the most shapes, do not use oneDNN
/// (product.cpp). Otherwise 1,024, because a shape takes only a tenth of a megabyte. `rows` samples of at
/// most `length` tokens in a batch.
[[nodiscard]] std::int64_t products_worth_keeping(std::int64_t rows, std::int64_t length,
                                                  kernels::Bf16Products products);

/// Sets the capacity of oneDNN's cache and of libtorch's on top of it, unless the user has set
/// ONEDNN_PRIMITIVE_CACHE_CAPACITY or LRU_CACHE_CAPACITY. Call before the first product, while the process
/// has one thread.
void keep_compiled_products(std::int64_t shapes);

}  // namespace echelon::ops
