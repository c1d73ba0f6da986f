// Spikes.
#include "train/spikes.h"

#include <cmath>

namespace hone::training {

bool is_spike(const SpikeSection& options, double norm, std::vector<double>& norms) {
  if (options.sigma == 0) return false;
  const auto window = static_cast<std::size_t>(options.window);
  bool spike = false;
  if (norms.size() >= window) {
    double sum = 0, squares = 0;
    for (const double one : norms) sum += one;
    const double mean = sum / static_cast<double>(norms.size());
    for (const double one : norms) squares += (one - mean) * (one - mean);
    spike = norm > mean + options.sigma * std::sqrt(squares / static_cast<double>(norms.size()));
  }
  norms.push_back(norm);
  if (norms.size() > window) norms.erase(norms.begin(), norms.end() - options.window);
  return spike;
}

}  // namespace hone::training
