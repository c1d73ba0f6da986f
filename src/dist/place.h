// Which of several processes this one is, as launchers say it in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hone::dist {

inline constexpr int kLongestLimit = 1'000'000;  // seconds

struct Place {
  int rank = 0, size = 1;              // of the whole job
  int local_rank = 0, local_size = 1;  // on this machine
  std::string address = "127.0.0.1";   // of the store, which knows all ranks
  int port = 29500;
  bool store_is_served = false;  // by the launcher; else by rank 0
  std::string launcher;          // "hone launch", "torchrun", "Slurm", "Open MPI"
  std::string rank_variable = "RANK";
  std::string job;               // its name, or which attempt it is; "": the store serves no other
  double limit_seconds = 60;     // HONE_RANK_TIMEOUT: after so long a silence a rank is lost
  bool on_one_machine() const { return local_size == size; }
};

// `variable` gives the environment's value, or nothing. Nothing: a process alone. Throws Error(config) where what is
// said contradicts itself or is not whole.
std::optional<Place> find_place(const std::function<std::optional<std::string>(const std::string&)>& variable);
std::optional<Place> find_place();  // of this process

}  // namespace hone::dist
