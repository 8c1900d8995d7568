#include "comm/agree.h"

#include <optional>

#include "base/error.h"

namespace echelon {

void agree(Communicator& comm, std::string_view label, const std::function<void()>& body) {
  std::optional<Error> mine;
  try {
    body();
  } catch (const Error& e) {
    mine = e;
  }
  const Blob status{static_cast<std::byte>(mine ? static_cast<int>(mine->code()) : 0)};
  const std::vector<Blob> all = comm.gather_blobs(status, label);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int code = std::to_integer<int>(all[static_cast<std::size_t>(rank)].at(0));
    if (code == 0) continue;
    if (rank == comm.rank()) throw Error(*mine);
    throw Error(static_cast<Code>(code), "");
  }
}

}  // namespace echelon
