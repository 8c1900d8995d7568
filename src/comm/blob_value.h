#pragma once
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "comm/communicator.h"

namespace echelon {

/// The bytes of a plain value, to send to ranks of the same build.
template <class T>
[[nodiscard]] Blob blob_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  Blob bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Throws Error(kPeer) where the sizes differ.
template <class T>
[[nodiscard]] T value_of(const Blob& bytes) {
  T value;
  if (bytes.size() != sizeof(T))
    throw Error(Code::kPeer, "a rank runs a different build: start the same binary on all ranks");
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

/// The value of every rank, by rank. Collective.
template <class T>
[[nodiscard]] std::vector<T> gather_values(Communicator& comm, const T& mine, std::string_view label) {
  std::vector<T> all;
  for (const Blob& bytes : comm.gather_blobs(blob_of(mine), label)) all.push_back(value_of<T>(bytes));
  return all;
}

}  // namespace echelon
