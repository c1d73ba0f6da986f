// Tables that grow.
//
// Letters: V rows, D width.
#include "hub/more_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/registry.h"

namespace hone::hub {
namespace {

// The second one is of Gemma 4's other table: if it has as many rows, it has a row for each token, too.
constexpr const char *kSize = "vocab_size", *kPerLayerSize = "vocab_size_per_layer_input";

using Shapes = std::map<std::string, std::vector<std::int64_t>>;
Shapes shapes_of(const Model& model) {
  Shapes shapes;
  model.each_weight([&](const std::string& name, const Weight& weight) { shapes[name] = weight.shape(); });
  return shapes;
}

// Whether models of this type may say it.
bool has_key(const config::Node& config, const std::string& key) {
  const config::Node* type = config.find("model_type");
  const auto options = type ? registries().models.options(type->text()) : nullptr;
  if (!options) return config.find(key) != nullptr;
  const auto all = options->describe();
  return std::any_of(all.begin(), all.end(), [&](const config::OptionInfo& option) { return option.path == key; });
}

// The weights whose first size is the number of tokens: those that change with it.
std::set<std::string> tables_of(const Model& model) {
  const Shapes own = shapes_of(model), other = shapes_of(*with_vocab_size(model, model.vocab_size() + 1));
  std::set<std::string> tables;
  for (const auto& [name, shape] : own)
    if (other.at(name) != shape) tables.insert(name);
  return tables;
}

at::Tensor grown(const at::Tensor& table_VD, std::int64_t rows, std::int64_t first, std::int64_t end) {
  const std::int64_t own = table_VD.size(0);
  auto sizes = table_VD.sizes().vec();
  sizes[0] = rows;
  at::Tensor made = at::empty(sizes, table_VD.options());
  made.narrow(0, 0, own).copy_(table_VD);
  const at::Tensor mean_1D = at::sum(table_VD.narrow(0, 0, first), {0}, /*keepdim=*/true, at::kDouble) / first;
  made.narrow(0, first, std::min(end, own) - first).copy_(mean_1D);
  made.narrow(0, own, rows - own).copy_(mean_1D);
  return made;
}

}  // namespace

std::unique_ptr<Model> with_vocab_size(const Model& model, std::int64_t rows, const TokenIds& ids) {
  config::Node config = model.hf_config();
  if (!config.find(kSize))
    throw Error(ErrorKind::config, "config.json: vocab_size: missing; it says how many rows there are");
  const config::Node before = *config.find(kSize);
  for (const char* key : {kSize, kPerLayerSize})
    if (config::Node* size = config.find(key); size && size->text() == before.text())
      *size = config::Values<std::int64_t>::write(rows);
  for (const auto& [key, id] : ids)
    if (has_key(config, key)) config.at_or_add(key) = config::Values<std::int64_t>::write(id);
  return build_model(config, "config.json");
}

SavedWeights with_more_rows(const Model& model, const Model& larger, std::int64_t first, std::int64_t end) {
  HONE_ASSERT(first > 0 && first <= model.vocab_size() && larger.vocab_size() >= model.vocab_size());
  const at::NoGradGuard no_graph;
  const std::set<std::string> tables = tables_of(model);
  SavedWeights weights = weights_of(model);
  for (SavedWeight& weight : weights)
    if (tables.contains(weight.name)) weight.value = grown(weight.value, larger.vocab_size(), first, end);
  return weights;
}

}  // namespace hone::hub
