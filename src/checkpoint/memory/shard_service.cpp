#include "checkpoint/memory/shard_service.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <system_error>
#include <utility>

#include "base/caught.h"
#include "base/error.h"
#include "base/net/stream.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/folder/files.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_index.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/memory_note.h"

namespace echelon::checkpoint {
namespace {

using Path = std::filesystem::path;

constexpr int kLook_ms = 50;
constexpr double kHandshake_s = 10;
constexpr double kRequest_s = 10;  // for a client to state what it wants
constexpr double kUnread_s = 60;   // for a client to read what it was sent
constexpr double kRenewed_s = 1;   // for the ranks of this node to make the run's folder anew
constexpr int kMostClients = 64;   // served at a time; further ones wait
constexpr std::size_t kPart = std::size_t{256} << 10;
constexpr std::array<char, 8> kMagic{'E', 'C', 'K', 'M', 'E', 'M', '0', '1'};

/// Sent as raw bytes: both ends are the same build.
struct Request {
  std::array<char, 8> magic = kMagic;
  WantedFile file = WantedFile::kShard;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::array<char, 8> save_id{};
  std::int64_t step = 0;
  double patience_s = 0;
};

/// Before the file, or before the text that says why there is none.
struct Reply {
  std::array<char, 8> magic = kMagic;
  std::uint64_t bytes = 0;
  std::uint32_t refused = 0;    ///< 1: the bytes are a text
  std::uint32_t of_system = 0;  ///< 1: of an error that is of the system
};
constexpr std::uint64_t kMaxRefusal = 4096;

template <class Message>
Message receive(const fs::Fd& socket, const Patience& patience) {
  const auto message = receive_message<Message>(socket, patience);
  if (message.magic != kMagic) throw Error::of_system(Code::kCheckpoint, "no sensible answer");
  return message;
}

}  // namespace

/// What outlives the server as long as a client is served.
struct ShardServer::Shared {
  Path run_folder;
  std::atomic<bool> ending{false};
  std::atomic<int> clients{0};

  void serve(const fs::Fd& socket) const noexcept;
  void answer(const fs::Fd& socket) const;
  void refuse(const fs::Fd& socket, const Error& error) const;
  [[nodiscard]] Path wait_for_file(const Request& request) const;
  /// `bytes`: how many of the file are wanted.
  [[nodiscard]] InputFile open(const Request& request, std::uint64_t& bytes) const;
};

Path ShardServer::Shared::wait_for_file(const Request& request) const {
  const std::string save_id(request.save_id.data(), request.save_id.size());
  const bool sound = is_save_id(save_id) && request.step >= 0 && request.step <= kMaxStep &&
                     request.rank >= 0 && request.rank < request.ranks && request.ranks <= kMaxRanks;
  if (!sound) throw Error(Code::kCheckpoint, "the request makes no sense");
  const Path folder = run_folder / step_folder_name(request.step, save_id);
  const Path file =
      folder / (request.file == WantedFile::kInfo ? std::string(kInfoFile)
                                                  : shard_file_name(request.rank, request.ranks));
  const Path failure = folder / failure_file_name(request.rank);
  const double began = steady_now_s();
  const double until = began + request.patience_s;
  bool begun = false;  // the save, on this node
  while (!entry_exists(file)) {
    if (entry_exists(failure)) throw Error(Code::kCheckpoint, read_input(failure, kMaxRefusal));
    const bool there = entry_exists(folder);
    // Without the run's folder, or without a step folder that was there, nothing will come.
    if (begun ? !there : steady_now_s() - began > kRenewed_s && memory_vanished(run_folder))
      throw Error(Code::kCheckpoint, '\'', folder.string(), "' has vanished");
    begun = there;
    if (ending) throw Error::of_system(Code::kCheckpoint, "the other rank ends");
    if (!(steady_now_s() < until)) throw Error(Code::kCheckpoint, "there is no '", file.string(), '\'');
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return file;
}

InputFile ShardServer::Shared::open(const Request& request, std::uint64_t& bytes) const {
  const Path path = wait_for_file(request);
  InputFile file = open_input(path);
  bytes = file.bytes;
  if (request.file == WantedFile::kIndex) {
    std::vector<std::byte> head(std::min<std::uint64_t>(bytes, kIndexHeaderBytes));
    fs::read_at(file.fd, 0, head, Code::kCheckpoint, path);
    bytes = std::min(bytes, decode_index_head(head, path.string()).index_bytes);
  }
  return file;
}

void ShardServer::Shared::refuse(const fs::Fd& socket, const Error& error) const {
  const std::string why = std::string(error.what()).substr(0, kMaxRefusal);
  const Patience patience{kUnread_s, &ending};
  send_message(socket, Reply{.bytes = why.size(), .refused = 1, .of_system = error.is_of_system()}, patience);
  send_all(socket, std::as_bytes(std::span(why)), patience);
}

void ShardServer::Shared::answer(const fs::Fd& socket) const {
  const auto request = receive<Request>(socket, {kRequest_s, &ending});
  InputFile file;
  std::uint64_t bytes = 0;
  try {
    file = open(request, bytes);
  } catch (const Error& error) {
    return refuse(socket, error);
  } catch (...) {
    return refuse(socket, Error::of_system(Code::kCheckpoint, caught()));
  }
  const Patience patience{kUnread_s, &ending};
  send_message(socket, Reply{.bytes = bytes}, patience);
  std::vector<std::byte> part;
  for (std::uint64_t at = 0; at < bytes; at += part.size()) {
    part.resize(std::min<std::uint64_t>(kPart, bytes - at));
    fs::read_at(file.fd, at, part, Code::kCheckpoint, run_folder);
    send_all(socket, part, patience);
  }
}

void ShardServer::Shared::serve(const fs::Fd& socket) const noexcept {
  try {
    answer(socket);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the client sees its connection close, and says so
  }
}

ShardServer::ShardServer(Path run_folder, const Secret& secret, GuardedListener::Places places)
    : listener_(Service::kShards, secret, places, "memory checkpoints", "copies on other nodes need it"),
      shared_(std::make_shared<Shared>()) {
  shared_->run_folder = std::move(run_folder);
  thread_ = std::thread([this] { loop(); });
}

ShardServer::~ShardServer() {
  shared_->ending = true;
  thread_.join();
  while (shared_->clients > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void ShardServer::serve_in_thread(fs::Fd client) {
  ++shared_->clients;
  try {
    std::thread([shared = shared_, client = std::move(client)]() mutable {
      lower_priority_of_this_thread();
      shared->serve(std::exchange(client, {}));  // closed when the count falls: then the server may end
      --shared->clients;
    }).detach();
  } catch (const std::system_error&) {  // no thread left: the client's connection closes
    --shared_->clients;
  }
}

void ShardServer::loop() {
  pthread_setname_np(pthread_self(), "echelon-shards");
  std::deque<fs::Fd> waiting;
  while (!shared_->ending) {
    pollfd query{.fd = listener_.fd(), .events = POLLIN, .revents = 0};
    (void)poll(&query, 1, kLook_ms);
    for (fs::Fd& client : listener_.accept()) waiting.push_back(std::move(client));
    for (; !waiting.empty() && shared_->clients < kMostClients; waiting.pop_front())
      serve_in_thread(std::move(waiting.front()));
  }
}

void fetch(const ServiceCard& from, const Secret& secret, const WantedShard& wanted,
           const FetchLimits& limits, const std::function<void(std::span<const std::byte>)>& take) {
  const auto lost = [](const std::string& why) { return Error::of_system(Code::kCheckpoint, why); };
  if (from.port == 0) throw lost("that rank serves no memory checkpoints");
  std::string why;
  const auto socket = call_service(from,
                                   {.service = Service::kShards,
                                    .secret = secret,
                                    .patience_s = std::min(kHandshake_s, limits.silence_s),
                                    .cancelled = limits.cancelled},
                                   why);
  if (!socket) throw lost(str("cannot connect (", why, ')'));
  Request request{.file = wanted.file,
                  .rank = wanted.rank,
                  .ranks = wanted.ranks,
                  .step = wanted.step,
                  .patience_s = wanted.patience_s};
  std::copy_n(wanted.save_id.begin(), std::min(wanted.save_id.size(), request.save_id.size()),
              request.save_id.begin());
  const Patience patience{limits.silence_s, limits.cancelled};
  send_message(*socket, request, patience);
  const auto reply = receive<Reply>(*socket, {wanted.patience_s + limits.silence_s, limits.cancelled});
  if (reply.refused != 0 && reply.bytes > kMaxRefusal) throw lost("no sensible answer");
  std::string refusal;
  std::vector<std::byte> part(kPart);
  for (std::uint64_t at = 0; at < reply.bytes;) {
    const std::size_t wish = std::min<std::uint64_t>(part.size(), reply.bytes - at);
    const auto got = std::span(part).first(receive_some(*socket, std::span(part).first(wish), patience));
    at += got.size();
    if (reply.refused != 0)
      refusal.append(reinterpret_cast<const char*>(got.data()), got.size());
    else
      take(got);
  }
  if (reply.refused != 0) throw reply.of_system != 0 ? lost(refusal) : Error(Code::kCheckpoint, refusal);
}

}  // namespace echelon::checkpoint
