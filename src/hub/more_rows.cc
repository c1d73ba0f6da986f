// Tables that grow.
//
// Letters: V rows, D width, N new rows.
#include "hub/more_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "config/texts_half.h"
#include "hone/config_read.h"
#include "hone/hub.h"
#include "hone/random.h"
#include "hone/registry.h"
#include "tensor/host.h"

namespace hone::hub {
namespace {

// The second one is of Gemma 4's other table: if it has as many rows, it has a row for each token, too. The third is
// Marian's, which says it twice.
constexpr const char *kSize = "vocab_size", *kPerLayerSize = "vocab_size_per_layer_input",
                     *kDecoderSize = "decoder_vocab_size";

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

// How far a new row lies from the mean, in deviations of those there are: far enough that no two are the same in bf16,
// near enough that it stays like none that was learnt.
constexpr double kApart = 1e-2;

// Of each number of the rows from `first` up to `end`: a function of the table's name and the row.
at::Tensor noise(const std::string& table, std::int64_t first, std::int64_t end, std::int64_t width, double deviation) {
  at::Tensor made_ND = at::empty({end - first, width}, at::TensorOptions().dtype(at::kFloat));
  const Random random(/*seed=*/0, "extend/" + table);
  random.fill_normal(host::mutable_values<float>(made_ND), static_cast<std::uint64_t>(first * width), 0,
                     static_cast<float>(deviation));
  return made_ND.to(at::kDouble);
}

// Of all numbers of the rows from their mean.
double deviation_of(const at::Tensor& rows_KD, const at::Tensor& mean_1D) {
  constexpr std::int64_t kAtOnce = 4096;  // rows
  double squares = 0;
  for (std::int64_t row = 0; row < rows_KD.size(0); row += kAtOnce) {
    const at::Tensor some = rows_KD.narrow(0, row, std::min(kAtOnce, rows_KD.size(0) - row)).to(at::kDouble);
    squares += host::number((some - mean_1D).square().sum());
  }
  return std::sqrt(squares / static_cast<double>(std::max<std::int64_t>(1, rows_KD.numel())));
}

struct Grown {
  std::string table;  // its name
  std::int64_t rows, first, end;
};
at::Tensor grown(const at::Tensor& table_VD, const Grown& to) {
  const auto& [table, rows, first, end] = to;
  const std::int64_t own = table_VD.size(0);
  auto sizes = table_VD.sizes().vec();
  sizes[0] = rows;
  at::Tensor made = at::empty(sizes, table_VD.options());
  made.narrow(0, 0, own).copy_(table_VD);
  const at::Tensor known_KD = table_VD.narrow(0, 0, first);
  const at::Tensor mean_1D = at::sum(known_KD, {0}, /*keepdim=*/true, at::kDouble) / first;
  made.narrow(0, own, rows - own).copy_(mean_1D);
  if (end <= first) return made;
  at::Tensor fresh = made.narrow(0, first, end - first);
  const double deviation = kApart * deviation_of(known_KD, mean_1D);
  fresh.copy_((mean_1D.flatten() + noise(table, first, end, mean_1D.numel(), deviation)).reshape(fresh.sizes()));
  return made;
}

}  // namespace

std::unique_ptr<Model> with_vocab_size(const Model& model, std::int64_t rows, const TokenIds& ids) {
  config::Node whole = model.hf_config();
  config::Node& config = config::of_words(whole);
  if (!config.find(kSize))
    throw Error(ErrorKind::config, "config.json: vocab_size: missing; it says how many rows there are");
  const config::Node before = *config.find(kSize);
  for (const char* key : {kSize, kPerLayerSize, kDecoderSize})
    if (config::Node* size = config.find(key); size && size->text() == before.text())
      *size = config::Values<std::int64_t>::write(rows);
  for (const auto& [key, id] : ids)
    if (has_key(config, key)) config.at_or_add(key) = config::Values<std::int64_t>::write(id);
  return build_model(whole, "config.json");
}

SavedWeights with_more_rows(const Model& model, const Model& larger, std::int64_t first, std::int64_t end) {
  HONE_ASSERT(first > 0 && first <= model.vocab_size() && larger.vocab_size() >= model.vocab_size());
  const at::NoGradGuard no_graph;
  const std::set<std::string> tables = tables_of(model);
  SavedWeights weights = weights_of(model);
  for (SavedWeight& weight : weights)
    if (tables.contains(weight.name)) {
      const bool lies = weight.value.size(0) == 1 && weight.value.dim() == 2;  // BART's bias of logits: a row
      const at::Tensor made =
          grown(lies ? weight.value.t() : weight.value, {weight.name, larger.vocab_size(), first, end});
      weight.value = lies ? made.t().contiguous() : made;
    }
  return weights;
}

}  // namespace hone::hub
