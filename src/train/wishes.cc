// Agreeing.
#include "train/wishes.h"

#include <nlohmann/json.hpp>

namespace hone::training {

void Wishes::add(const Wishes& more) {
  evaluate |= more.evaluate, save |= more.save;
  if (stop.empty()) stop = more.stop;
  if (signal.empty()) signal = more.signal;
}

Wishes agreed(const World& world, const Wishes& own) {
  if (world.size() == 1) return own;
  const nlohmann::json told = {
      {"evaluate", own.evaluate}, {"save", own.save}, {"stop", own.stop}, {"signal", own.signal}, {"busy", own.busy}};
  Wishes all;
  for (const std::string& one : world.gather(told.dump())) {
    const nlohmann::json json = nlohmann::json::parse(one);
    all.evaluate |= json.at("evaluate").get<bool>();
    all.save |= json.at("save").get<bool>();
    if (all.stop.empty()) all.stop = json.at("stop").get<std::string>();
    if (all.signal.empty()) all.signal = json.at("signal").get<std::string>();
    for (const double seconds : json.at("busy").get<std::vector<double>>()) all.busy.push_back(seconds);
  }
  return all;
}

}  // namespace hone::training
