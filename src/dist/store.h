// A table of texts that all ranks of a job see, served by the launcher or by rank 0.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dist/collectives.h"
#include "dist/place.h"

namespace hone::dist {

// What the keys begin with of those whom join() makes, with a slash.
inline constexpr const char* kOfRanks = "ranks";

class Store {
 public:
  // port 0: any that is free. Throws Error(peer).
  static Store serve(const std::string& address, int port);
  static Store connect(const std::string& address, int port, double timeout_seconds);
  void set_job(const std::string& job);  // whose keys are its own, as another may be served at the same address
  int port() const;
  void set(const std::string& key, const std::string& value);
  std::optional<std::string> find(const std::string& key);
  bool answers();
  std::string set_once(const std::string& key, const std::string& value);  // what the first one has set it to

  // All ranks of the place's job, by Gloo. Throws Error(peer) that names those that have not come in time. From then on
  // a rank is waited for without limit: who is lost is the watchdog's to say.
  std::shared_ptr<RankCollectives> join(const Place& place, double timeout_seconds);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hone::dist
