// Queries that grow with their position: from config.json, and back.
#include "models/query_growth.h"

#include "hone/config_read.h"
#include "models/sort_keys.h"

namespace hone::models {
namespace {

using config::Node;

constexpr const char *kGrowthKey = "llama_4_scaling_beta", *kLengthKey = "original_max_position_embeddings";
// Is written beside the other rotary parameters, and means nothing there.
constexpr const char* kRepeatedKey = "max_position_embeddings";

}  // namespace

Node* rope_section(LlamaConfig& c) {
  Node& node = has_rope_scaling(c) ? c.rope_scaling.node : c.rope_parameters.node;
  return node.is_map() ? &node : nullptr;
}

SaidOfGrowth take_growth(Node& rope, const std::string& family, const std::string& path, Problems& problems) {
  SaidOfGrowth said;
  if (const Node* beta = rope.find(kGrowthKey))
    config::Values<double>::read(*beta, said.beta, {problems, path + kGrowthKey, {.low = 0, .high = 1000}});
  else
    problems.add(path + kGrowthKey, "missing; " + family + " needs it, 0 = queries do not grow");
  if (const Node* length = rope.find(kLengthKey); length && !length->is_null())
    config::Values<std::int64_t>::read(*length, said.length.emplace(1),
                                       {problems, path + kLengthKey, {.low = 1, .high = 2147483647}});
  std::erase_if(rope.entries(), [](const Node::Entry& entry) {
    return entry.first == kGrowthKey || entry.first == kRepeatedKey || entry.first == kLengthKey;
  });
  return said;
}

void write_growth(const LlamaShape::QueryGrowth& growth, Node& rope) {
  rope.at_or_add(kGrowthKey) = nn::hf_float(growth.beta);
  rope.at_or_add(kLengthKey) = config::Values<std::int64_t>::write(growth.length);
  sort_keys(rope);
}

}  // namespace hone::models
