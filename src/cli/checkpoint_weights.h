// Weights of several checkpoints, side by side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hone::cli {

// {"step", "tokens": [of a, of b], "recipe": changed options, "only_in_a", "only_in_b", "shapes", "weights": [{"name",
// "max", "relative"}], the most changed ones first}. relative: of the difference's norm and a's.
nlohmann::ordered_json checkpoint_difference(const std::string& a, const std::string& b);

// A model whose weights are the mean of those of all places, each as large a part of it, in the type that the first
// one's are stored in. Error(usage, checkpoint): fewer than two; others than the first one's shapes; adapters.
void write_average(const std::vector<std::string>& places, const std::string& out, bool replace);

}  // namespace hone::cli
