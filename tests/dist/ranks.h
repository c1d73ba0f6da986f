// Ranks as threads of one process: Gloo does not mind.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "dist/store.h"
#include "hone/world.h"

namespace hone::test {

// Calls body(world) on `size` ranks at once; rethrows what the first of them that failed threw.
inline void on_ranks(int size, const std::function<void(const World&)>& body) {
  dist::Store served = dist::Store::serve("127.0.0.1", 0);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        dist::Place place;
        place.rank = place.local_rank = rank, place.size = place.local_size = size, place.port = served.port();
        dist::Store store = dist::Store::connect(place.address, place.port, 20);
        body(World(store.join(place, 20)));
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace hone::test
