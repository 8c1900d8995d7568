#pragma once
#include <cstdint>

/// oneDNN compiles code for every shape of a product that it meets and keeps that of 1,024 shapes: on
/// processors with AMX close to a megabyte each. Where sequences differ in length, there are always new
/// shapes.
namespace echelon::ops {

/// How many shapes are worth keeping: those of one layer, which come again in the next one; of another
/// batch's few do. `rows` samples of at most `length` tokens in a batch. 128 to 1,024.
[[nodiscard]] std::int64_t products_worth_keeping(std::int64_t rows, std::int64_t length);

/// Has oneDNN, and what libtorch remembers of it, keep so many, unless the user has said how many
/// (ONEDNN_PRIMITIVE_CACHE_CAPACITY, LRU_CACHE_CAPACITY). Before the first product, while the process has one
/// thread.
void keep_compiled_products(std::int64_t shapes);

}  // namespace echelon::ops
